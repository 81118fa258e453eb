"""Is this gradient right? Ours, or anyone's.

reference   the equations of an op, executed as they are written: autograd of that is what is right
lengths     lengths for axes that fit together
cases       one call with everything to hold it against
battery     the list of adversarial situations
subjects    whatever gives gradients
kernels     an op's kernels in C, compiled, and whether they ran
compare     a subject held against a case
emitted     what is emitted, proved before it is written
apart       kernels, proved in a process of their own
"""
