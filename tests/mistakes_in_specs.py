"""Specs as a newcomer gets them wrong: the inputs and the body (or a whole file), and the line it ends in."""

# ruff: noqa: E501

MISTAKES = {
    "no_axes_at_all": (
        "f, x: tensor[n, d]",
        "f.loss[] = sum(x[n, d], over=(n, d))\n    return f.loss",
        "op mine: invalid syntax; an element of a tensor without axes is f.loss[()]",
    ),
    "round": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = round(x[n, d])\n    return f.y",
        "op mine, equation y: round has no derivative that a backward could use (Cannot round symbolic expression); pass what it adds as an input without gradient, r: constant[n, d], and write x[n, d] + r[n, d]",
    ),
    "place_between_two": (
        "f, x: tensor[n, d], p: tensor[t]",
        "f.y[n, t] = x[n, p[t]]\n    return f.y",
        "op mine, equation y: p[t] stands in an index but holds no integers; declare p: index(d)[t]; for a value between two places, pass both places so, and its weight as a tensor",
    ),
    "merge_alone": (
        "f, x: tensor[d], m: tensor[t]",
        "f.y[t, e] = x[(t, e)] * m[t]\n    return f.y",
        "op mine, equation y: x has axes [d] but is read as x[t, e]; give x exactly 1 index; axes merged into one stand in brackets of their own: x[(t, e),]",
    ),
    "typo_operand": (
        "f, x: tensor[n, d], weight: tensor[d]",
        "f.y[n, d] = x[n, d] * wieght[d]\n    return f.y",
        "op mine, equation y: wieght is not defined; did you mean weight?",
    ),
    "equation_named_like_a_scalar": (
        "f, x: tensor[n, d], s: scalar = 2.0",
        "f.s[()] = sum(x[n, d], over=(n, d))\n    f.y[n, d] = x[n, d] * s\n    return f.y",
        "op mine, equation s: s is an input; give the equation another name",
    ),
    "equation_named_like_a_length": (
        "f, x: tensor[n, d], heads: length(k)",
        "f.heads[n] = sum(x[n, d], over=d)\n    f.y[n, k, e] = x[n, (k, e)] * f.heads[n]\n    return f.y",
        "op mine, equation heads: heads is an input; give the equation another name",
    ),
    "function_of_sympy": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = cosh(x[n, d])\n    return f.y",
        "op mine, equation y: cosh is not defined; write `from sympy import cosh`",
    ),
    "no_f": (
        "f, x: tensor[n, d]",
        "f.mu[n] = mean(x[n, d], over=d)\n    f.y[n, d] = x[n, d] - mu[n]\n    return f.y",
        "op mine, equation y: mu is not defined; an equation is read back as f.mu[…]",
    ),
    "max": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = max(x[n, d], 0)\n    return f.y",
        "op mine, equation y: asks for one answer where each element has its own (cannot determine truth value of Relational: x[n, d] < 0); use where() for a choice, (0 < x) & (x < 1) in conditions, maximum() and minimum(), eq() and ne()",
    ),
    "and": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0 and x[n, d] < 1, x[n, d], 0)\n    return f.y",
        "op mine, equation y: asks for one answer where each element has its own (cannot determine truth value of Relational: x[n, d] > 0); use where() for a choice, (0 < x) & (x < 1) in conditions, maximum() and minimum(), eq() and ne()",
    ),
    "eqeq": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] == 0, 1, x[n, d])\n    return f.y",
        "op mine, equation y: == asks whether x[n, d] and 0 are written alike; compare their values: eq(x[n, d], 0)",
    ),
    "if_element": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] if x[n, d] else 1\n    return f.y",
        "op mine, equation y: asks whether x[n, d] is true, which each element answers as the op runs; write where(ne(x[n, d], 0), a, b) for a choice, and & | ~ between conditions",
    ),
    "if_number": (
        "f, x: tensor[n, d], s: scalar = 0.5",
        "f.y[n, d] = x[n, d] if 1 + s else 1\n    return f.y",
        "op mine, equation y: asks whether s + 1 is true, which each element answers as the op runs; write where(ne(s + 1, 0), a, b) for a choice, and & | ~ between conditions",
    ),
    "if_axis": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] if d else 1\n    return f.y",
        "op mine, equation y: asks whether d is true, which each element answers as the op runs; write where(ne(d, 0), a, b) for a choice, and & | ~ between conditions",
    ),
    "if_axis_equals": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] if d == 0 else 1\n    return f.y",
        "op mine, equation y: == asks whether d and 0 are written alike; compare their values: eq(d, 0)",
    ),
    "if_elements_differ": (
        "f, x: tensor[n, d], w: tensor[d]",
        "f.y[n, d] = x[n, d] if x[n, d] - 1 != w[d] else 1\n    return f.y",
        "op mine, equation y: != asks whether x[n, d] - 1 and w[d] are written alike; compare their values: ne(x[n, d] - 1, w[d])",
    ),
    "if_both_conditions": (
        "f, x: tensor[n, d], w: tensor[d]",
        "f.y[n, d] = x[n, d] if (x[n, d] > 0) & (w[d] > 0) else 1\n    return f.y",
        "op mine, equation y: asks whether (w[d] > 0) & (x[n, d] > 0) is true, which each element answers as the op runs; write where((w[d] > 0) & (x[n, d] > 0), a, b) for a choice, and & | ~ between conditions",
    ),
    "or_of_elements": (
        "f, x: tensor[n, d], w: tensor[d]",
        "f.y[n, d] = x[n, d] or w[d]\n    return f.y",
        "op mine, equation y: asks whether x[n, d] is true, which each element answers as the op runs; write where(ne(x[n, d], 0), a, b) for a choice, and & | ~ between conditions",
    ),
    "not_element": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(not x[n, d], 1, x[n, d])\n    return f.y",
        "op mine, equation y: asks whether x[n, d] is true, which each element answers as the op runs; write where(ne(x[n, d], 0), a, b) for a choice, and & | ~ between conditions",
    ),
    "chain": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(0 < x[n, d] < 1, x[n, d], 0)\n    return f.y",
        "op mine, equation y: asks for one answer where each element has its own (cannot determine truth value of Relational: x[n, d] > 0); use where() for a choice, (0 < x) & (x < 1) in conditions, maximum() and minimum(), eq() and ne()",
    ),
    "in_list": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] in (1, 2), x[n, d], 0)\n    return f.y",
        "op mine, equation y: == asks whether x[n, d] and 1 are written alike; compare their values: eq(x[n, d], 1)",
    ),
    "in_tensor": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(1 in x, x[n, d], 0)\n    return f.y",
        "op mine, equation y: a tensor is used like a list (argument of type 'Handle' is not iterable); the length of an axis is size(d)",
    ),
    "if_tensor": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] if x == 0 else 1\n    return f.y",
        "op mine, equation y: x is used without its axes; read one element: x[n, d]",
    ),
    "matmul": (
        "f, x: tensor[n, d], w: tensor[d, e]",
        "f.y = x @ w\n    return f.y",
        "op mine, equation y: x @ … multiplies whole tensors; write the sum of products, sum(x[n, d] * w[d, e], over=…)",
    ),
    "up_to_a_place": (
        "f, x: tensor[n, t]",
        "f.y[n, t] = sum(x[n, e], over=e <= t)\n    return f.y",
        "op mine, equation y: sum(…, over=e <= t): not an axis; say where with where: sum(where(e <= t, …, 0), over=e)",
    ),
    "length_named_like_its_axis": (
        "f, x: tensor[n, t], e: length(e) = 3",
        "f.y[n, d] = amax(x[n, d + e], over=e)\n    return f.y",
        "op mine, equation y: amax(…, over=size(e)): not an axis; call the argument otherwise, e_length: length(e), so that e is the axis",
    ),
    "called_with_an_expression": (
        "f, x: tensor[n, d], a: scalar",
        "from derive.ops.activations import softmax\n    f.y = softmax(x[n, d] / a)\n    return f.y",
        "op mine, equation y: softmax: argument x is no tensor of this spec; name it first, f.a[n, d] = x[n, d]/a, and pass f.a",
    ),
    "covariance": (
        "f, x: tensor[n, d]",
        "f.y[d, d] = mean(x[n, d] * x[n, d], over=n)\n    return f.y",
        "op mine, equation y: an axis stands twice on the left; use delta(i, j) on the right for a diagonal, or another axis for all pairs: f.y[i, j]",
    ),
    "input_renamed": (
        "f, x: tensor[n, d]",
        "f.y = x\n    return f.y",
        "op mine, equation y: f.y is given the input x; write an equation, f.y[…] = x[…]",
    ),
    "nothing": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = print(end='')\n    return f.y",
        "op mine, equation y: None is no expression; write one value, made of elements and numbers",
    ),
    "list": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = [x[n, d]]\n    return f.y",
        "op mine, equation y: [x[n, d]] is no expression; write one value, made of elements and numbers",
    ),
    "math_exp": (
        None,
        "import math\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = math.exp(x[n, d])\n    return f.y",
        "op mine, equation y: takes numbers (Cannot convert expression to float); use the functions of derive, which take elements: exp, log, sqrt, abs and the others",
    ),
    "floordiv": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] // 2\n    return f.y",
        "op mine, equation y: floor has no derivative that a backward could use; use differentiable functions, or pass its value as an input without gradient (constant[...])",
    ),
    "mod": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] % 2\n    return f.y",
        "op mine, equation y: Mod has no derivative that a backward could use; use differentiable functions, or pass its value as an input without gradient (constant[...])",
    ),
    "sum_noover": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d])\n    return f.y",
        "op mine, equation y: sum() missing 1 required keyword-only argument: 'over'; write sum(x[n, d], over=d)",
    ),
    "sum_dim": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d], dim=1)\n    return f.y",
        "op mine, equation y: sum() got an unexpected keyword argument 'dim'; write sum(x[n, d], over=d)",
    ),
    "sum_positional": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d], d)\n    return f.y",
        "op mine, equation y: sum() takes 1 positional argument but 2 were given; write sum(x[n, d], over=d)",
    ),
    "sum_over_twice": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d], over=(d, d))\n    return f.y",
        "op mine, equation y: sum is taken over d twice; name d once",
    ),
    "rank_many": (
        "f, x: tensor[d]",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine, equation y: x has axes [d] but is read as x[n, d]; give x exactly 1 index; axes merged into one stand in brackets of their own: x[(n, d),]",
    ),
    "no_return": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d]",
        "op mine: the spec returns nothing; end it with return f.y",
    ),
    "return_input": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d]\n    return x",
        "op mine: returns its input x; return what an equation defines, such as f.y",
    ),
    "return_at": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d]\n    return f.y[n, d]",
        "op mine: returns one element, y[n, d]; return the whole tensor: return f.y",
    ),
    "int_output": (
        "f, x: tensor[n, d], y: index(d)[n]",
        "f.z[n] = y[n]\n    return f.z",
        "op mine, equation z: returns z, which holds integers and has no gradient; return real tensors only",
    ),
    "bool_output": (
        "f, x: tensor[n, d]",
        "f.z[n, d] = x[n, d] > 0\n    return f.z",
        "op mine, equation z: returns z, a condition; return real tensors only, such as f.y[…] = where(condition, 1, 0)",
    ),
    "condition_elsewhere": (
        "f, x: tensor[n, d]",
        "f.c[n, d] = x[n, d] > 0\n    f.z[n] = where(f.c[n, 0], x[n, 0], 0)\n    return f.z",
        "op mine, equation z: c is a condition over [n, d] but is read as c[n, 0]; "
        "give it one axis for each, or a number of it an equation, where(f.c[n, d], 1, 0)",
    ),
    "condition_merged": (
        "f, x: tensor[n, d]",
        "f.c[(n, d),] = x[n, d] > 0\n    return f.c",
        "op mine, equation c: a condition is over merged axes; name it over each: f.c[t, e], not f.c[(t, e),]",
    ),
    "condition_free_axis": (
        "f, x: tensor[n, d]",
        "f.c[n] = x[n, d] > 0\n    return f.c",
        "op mine, equation c: axis d stands on the right only; "
        "put d on the left, or say how it is reduced: sum(…, over=d); its length is size(d)",
    ),
    "condition_by_name_summed": (
        "f, x: tensor[n, d]",
        "f.c[n, d] = x[n, d] > 0\n    f.z[n] = sum(f.c[n, d], over=d)\n    return f.z",
        "op mine, equation z: calculates with a condition, x[n, d] > 0; write where(condition, 1, 0)",
    ),
    "length_of_values": (
        "f, x: tensor[n, d]",
        "length(k, size(d) + x[0, 0])\n    f.z[n, k] = x[n, k]\n    return f.z",
        "op mine: x[0, 0] + size(d) is no length of axis k; "
        "write it of other lengths and whole numbers: length(u, size(t) + 1)",
    ),
    "length_of_itself": (
        "f, x: tensor[n, d]",
        "length(k, size(k) + 1)\n    f.z[n, k] = x[n, k]\n    return f.z",
        "op mine: size(k) + 1 is no length of axis k; "
        "write it of other lengths and whole numbers: length(u, size(t) + 1)",
    ),
    "length_twice": (
        "f, x: tensor[n, d]",
        "length(k, 2)\n    length(k, 3)\n    f.z[n, k] = x[n, k]\n    return f.z",
        "op mine: the length of k is 2 already; say it of one axis, once",
    ),
    "length_of_argument": (
        "f, x: tensor[n, d], part: length(k)",
        "length(k, 2)\n    f.z[n, k] = x[n, k]\n    return f.z",
        "op mine: the length of axis k is the argument part, and said in the body; leave one of them out",
    ),
    "length_unsaid": (
        "f, x: tensor[n, d]",
        "length(k)\n    f.z[n, k] = x[n, k]\n    return f.z",
        "op mine: length(k) stands in its body without one; "
        "an argument is heads: length(h), and above the equations stands length(u, size(t) + 1)",
    ),
    "length_too_long": (
        "f, x: tensor[n, d]",
        "length(k, size(d) + 1)\n    f.z[n, k] = x[n, k]\n    return f.z",
        "op mine, equation z: x[n, k] needs size(d) + 1 places of axis d, which never has more than size(d); "
        "give axes whose lengths differ names of their own",
    ),
    "annot_number": (
        "f, x: tensor[n, 3]",
        "f.y[n] = x[n, 0]\n    return f.y",
        'op mine: 3 is not an axis; name an axis of that length: p = axes("p=3")',
    ),
    "annot_index_noaxis": (
        "f, x: tensor[n, d], y: index[n]",
        "f.y[n] = x[n, y[n]]\n    return f.y",
        "op mine: index[…] does not say what its values run over; name that axis first: index(c)[n]",
    ),
    "no_f_param": (
        "x: tensor[n, d]",
        "return x",
        "op mine: its first parameter is not the frame; write def mine(f, …)",
    ),
    "kwonly": (
        "f, x: tensor[n, d], *, eps: scalar = 1e-5",
        "f.y[n, d] = x[n, d] + eps\n    return f.y",
        "op mine: parameter eps is no plain one; write each input by its name, without * and /",
    ),
    "conv_same": (
        "f, x: tensor[n, c, t], w: tensor[o, c, k]",
        "f.y[n, o, t] = sum(x[n, c, t + k] * w[o, c, k], over=(c, k))\n    return f.y",
        "op mine, equation y: x[n, c, k + t] reads beyond the end of axis t; give the places an axis of another name on both sides, such as f.y[…, u] = … x[…, u + k]",
    ),
    "shift": (
        "f, x: tensor[n]",
        "f.y[n] = x[n] - x[n - 1]\n    return f.y",
        "op mine, equation y: x[n - 1] reads before the first place of axis n; read it under a condition on its places that keeps it inside, such as where(t >= 1, x[…, t - 1], 0), shift the axis so that places start at 0, concat what stands before them, or add up what lies on the axis, such as sum(where(eq(u + 1, t), x[…, u], 0), over=u)",
    ),
    "shift_up": (
        "f, x: tensor[n]",
        "f.y[n] = x[n + 1] - x[n]\n    return f.y",
        "op mine, equation y: x[n + 1] reads beyond the end of axis n; give the places an axis of another name on both sides, such as f.y[…, u] = … x[…, u + k]",
    ),
    "recurrence": (
        "f, x: tensor[n]",
        "f.y[n] = f.y[n - 1] + x[n]\n    return f.y",
        "op mine, equation y: y[n - 1] is read, and y has no start; write what stands before the first place first: f.y[-1] = …",
    ),
    "recurrence_backwards_without_start": (
        "f, x: tensor[n, t]",
        "f.y[n, t] = f.y[n, t + 1] + x[n, t]\n    return f.y",
        "op mine, equation y: y[n, t + 1] is read, and y has no start; write what stands behind the last place first: f.y[n, size(t)] = …",
    ),
    "entangled_without_start": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.b[n, t - 1] + x[n, t]\n    f.b[n, t] = f.a[n, t - 1]\n    return f.a",
        "op mine, equation a: b[n, t - 1] is read, and b has no start; write what stands before the first place first: f.b[n, -1] = …",
    ),
    "circle_within_one_place": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.b[n, t] = f.a[n, t] * x[n, t]\n    f.a[n, t] = f.b[n, t]\n    return f.a",
        "op mine, equation b: f.a[n, t] is read before its equation, a circle within one place; read the place before, f.a[n, t - 1], or write the equation of a first",
    ),
    "reads_its_own_place": (
        "f, x: tensor[n]",
        "f.y[n] = f.y[n] + x[n]\n    return f.y",
        "op mine, equation y: y is read by its own equation; give each step a name of its own, or carry it along an axis: read f.h[…, t - 1], and write its start, f.h[…, -1] = …, first",
    ),
    "recurrence_in_both_directions": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.a[n, t + 1] + f.a[n, t - 1] + x[n, t]\n    return f.a",
        "op mine, equation a: a is carried in both directions: f.a[n, t + 1] is not made yet; read f.a[n, t - 1], or carry another state the other way",
    ),
    "place_not_made_yet": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.a[n, t - 1] + f.a[n, 3] + x[n, t]\n    return f.a",
        "op mine, equation a: f.a[n, 3] reads a place that is not made yet; read f.a[n, t - 1]",
    ),
    "two_starts": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, -1] = 1\n    f.a[n, t] = f.a[n, t - 1]+ x[n, t]\n    return f.a",
        "op mine, equation a: a has two starts; write one: f.a[n, -1]",
    ),
    "starts_at_both_ends": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, size(t)] = 1\n    f.a[n, t] = f.a[n, t - 1]+ x[n, t]\n    return f.a",
        "op mine, equation a: a has a start at both ends; write one: f.a[n, -1] or f.a[n, size(t)]",
    ),
    "two_places_back": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.a[n, t - 2]+ x[n, t]\n    return f.a",
        "op mine, equation a: f.a[n, t - 2] reads 2 places back; carry a second state, with a start of its own, f.prev[n, t] = f.a[n, t - 1], and read that one place back",
    ),
    "starts_along_two_axes": (
        "f, x: tensor[n, t]",
        "f.a[-1, -1] = 0\n    f.a[n, t] = f.a[n, t - 1]+ x[n, t]\n    return f.a",
        "op mine, equation a: a starts along two axes; carry a state along one: give the other an axis on the left",
    ),
    "recurrence_along_two_axes": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.a[n, t - 1]+ f.a[n - 1, t] + x[n, t]\n    return f.a",
        "op mine, equation a: a is carried along two axes, t and n; carry it along one: f.a[n, t - 1]",
    ),
    "entangled_along_two_axes": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.b[-1, t] = 0\n    f.a[n, t] = f.a[n, t - 1]+ f.b[n - 1, t] + x[n, t]\n    f.b[n, t] = f.a[n, t]\n    return f.a",
        "op mine, equation a: a and b read one another along two axes, n and t; carry what reads one another along one axis, one way",
    ),
    "entangled_in_both_directions": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.b[n, size(t)] = 0\n    f.a[n, t] = f.a[n, t - 1]+ f.b[n, t + 1] + x[n, t]\n    f.b[n, t] = f.a[n, t]\n    return f.a",
        "op mine, equation a: a and b read one another along both directions of t; carry what reads one another along one axis, one way",
    ),
    "start_read": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.a[n, t - 1]+ x[n, t]\n    f.y[n] = f.a[n, -1]\n    return f.y",
        "op mine, equation y: f.a[n, -1] is the start, and is read; the last place is f.a[n, size(t) - 1]; give the start an equation of its own, and read that",
    ),
    "start_read_backwards": (
        "f, x: tensor[n, t]",
        "f.a[n, size(t)] = 0\n    f.a[n, t] = f.a[n, t + 1]+ x[n, t]\n    f.y[n] = f.a[n, size(t)]\n    return f.y",
        "op mine, equation y: f.a[n, size(t)] is the start, and is read; the last place is f.a[n, 0]; give the start an equation of its own, and read that",
    ),
    "gather_inside_a_step": (
        "f, x: tensor[n, t], ix: index(t)[t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = f.a[n, ix[t]]+ x[n, t]\n    return f.a",
        "op mine, equation a: f.a[n, ix[t]] reads a place of t by an index inside a step; a step reads the place before alone: f.a[n, t - 1]",
    ),
    "gather_in_a_step": (
        "f, x: tensor[n, t], ix: index(t)[t]",
        "f.a[n, -1] = 0\n    f.b[n, t] = f.a[n, t - 1] * 2\n    f.a[n, t] = f.b[n, ix[t]]+ x[n, t]\n    return f.a",
        "op mine, equation a: b[n, ix[t]] is read inside a step along t; in a step read the place itself, or the one before it, alone",
    ),
    "start_alone": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.y[n, t] = x[n, t]\n    return f.y",
        "op mine, equation a: a start is written, and no equation; write f.a[n, t] = …",
    ),
    "start_unread": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.a[n, t] = x[n, t]\n    return f.a",
        "op mine, equation a: nothing reads f.a[n, t - 1], nor the start; leave the start out",
    ),
    "start_of_other_axes": (
        "f, x: tensor[n, t]",
        "f.a[k, -1] = 0\n    f.a[n, t] = f.a[n, t - 1] + x[n, t]\n    return f.a",
        "op mine, equation a: a starts as f.a[k, -1] but is written as f.a[n, t]; give both the same axes: f.a[k, t]",
    ),
    "sum_over_the_steps": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = 0\n    f.s[n] = sum(f.a[n, t - 1], over=t)\n    f.a[n, t] = f.s[n] + x[n, t]\n    return f.a",
        "op mine, equation s: reduces over t inside a step along it; in a step read the place itself, or the one before it, alone",
    ),
    "recurrence_called_in_a_step": (
        None,
        "@op\ndef inner(f, x: tensor[n, t]):\n    f.h[n, -1] = 0\n    f.h[n, t] = f.h[n, t - 1] + x[n, t]\n    return f.h\n@op\ndef mine(f, x: tensor[n, t]):\n    f.a[n, -1] = 0\n    f.b[n, t] = f.a[n, t - 1] * x[n, t]\n    f.c = inner(f.b)\n    f.a[n, t] = f.c[n, t]\n    return f.a",
        "op mine, equation c: an op with a recurrence is called inside a step along t; write its equations into the step",
    ),
    "state_is_a_condition": (
        "f, x: tensor[n, t]",
        "f.a[n, -1] = x[n, 0] > 0\n    f.a[n, t] = f.a[n, t - 1]\n    return f.a",
        "op mine, equation a: the state a is a condition; carry a number: f.a[…] = where(…, 1, 0)",
    ),
    "state_of_merged_axes": (
        "f, x: tensor[n, t, d, k]",
        "f.a[n, -1, (d, k)] = 0\n    f.a[n, t, (d, k)] = f.a[n, t-1, (d, k)] + x[n, t, d, k]\n    return f.a",
        "op mine, equation a: the start of a has merged axes; give the state an axis for each, and merge them afterwards",
    ),
    "str_index": (
        "f, x: tensor[n, d]",
        'f.y[n, d] = x["n", "d"]\n    return f.y',
        "op mine, equation y: 'n' is no index; index by axes, whole numbers, or an index(…) with its axes",
    ),
    "method": (
        "f, x: tensor[n, d]",
        "f.y[n] = x.mean(1)\n    return f.y",
        "op mine, equation y: x has no mean; write mean(x[n, d], over=d)",
    ),
    "method2": (
        "f, x: tensor[n, d]",
        "f.y[n] = x[n, d].mean(over=d)\n    return f.y",
        "op mine, equation y: an element has no mean; write mean(x[n, d], over=d)",
    ),
    "shape": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / x.shape[1]\n    return f.y",
        "op mine, equation y: x has no shape; the length of an axis is size(d)",
    ),
    "len": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / len(x)\n    return f.y",
        "op mine, equation y: a tensor is used like a list (object of type 'Handle' has no len()); the length of an axis is size(d)",
    ),
    "call_at": (
        None,
        "from derive.ops.activations import softmax\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = softmax(x[n, d])\n    return f.y",
        "op mine, equation y: softmax: argument x is one element, x[n, d]; pass the whole tensor and name the result: f.a = softmax(x)",
    ),
    "call_assigned": (
        None,
        "from derive.ops.activations import softmax\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = softmax(x)\n    return f.y",
        "op mine, equation y: softmax(…) is a whole tensor, used as if it were one element; name it without axes first, f.a = softmax(…), and read f.a[…]",
    ),
    "concat_dup": (
        "f, x: tensor[n, d], z: tensor[n, d]",
        "f.y[n, d] = concat(x[n, d], z[n, d], along=d)\n    return f.y",
        "op mine, equation y: x[n, d] runs over d, the axis that the pieces are joined along; join along an axis of another name: f.y[…, k] = concat(…, along=k)",
    ),
    "concat_noalong": (
        "f, x: tensor[n, i], z: tensor[n, j]",
        "f.y[n, k] = concat(x[n, i], z[n, j])\n    return f.y",
        "op mine, equation y: concat() missing 1 required keyword-only argument: 'along'; write concat(x[n, i], z[n, j], along=k)",
    ),
    "concat_inside": (
        "f, x: tensor[n, i], z: tensor[n, j]",
        "f.y[n, k] = 2 * concat(x[n, i], z[n, j], along=k)\n    return f.y",
        "op mine, equation y: concat stands inside an expression; give it an equation of its own",
    ),
    "where_two": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0, x[n, d])\n    return f.y",
        "op mine, equation y: where() missing 1 required positional argument: 'b'; write where(condition, a, b)",
    ),
    "where_value": (
        "f, x: tensor[n, d], m: constant[n, d]",
        "f.y[n, d] = where(m[n, d], x[n, d], 0)\n    return f.y",
        "op mine, equation y: m[n, d] is no condition; compare it with something: ne(m[n, d], 0)",
    ),
    "imag": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 1j\n    return f.y",
        "op mine, equation y: holds an imaginary number; write real expressions only",
    ),
    "div0": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / 0\n    return f.y",
        "op mine, equation y: divides by zero, or holds nan; write an expression that is finite",
    ),
    "xor": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] ^ 2\n    return f.y",
        "op mine, equation y: ^ is no power (unsupported operand type(s) for ^: 'At' and 'int'); write x[…] ** 2",
    ),
    "for_loop": (
        "f, x: tensor[n, d]",
        "for q in range(n):\n        f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: an axis is no number here ('Axis' object cannot be interpreted as an integer); an equation holds at all places of its axes: write no loop",
    ),
    "scalar_indexed": (
        "f, x: tensor[n, d], a: scalar",
        "f.y[n, d] = x[n, d] * a[()]\n    return f.y",
        "op mine, equation y: a number is read like a tensor ('Scalar' object is not subscriptable); write its name without brackets",
    ),
    "scalar0_bare": (
        "f, x: tensor[n, d], a: tensor[()]",
        "f.y[n, d] = x[n, d] * a\n    return f.y",
        "op mine, equation y: a is used without its axes; read one element: a[()]",
    ),
    "scalar0_wrong": (
        "f, x: tensor[n, d], a: tensor[()]",
        "f.y[n, d] = x[n, d] * a[0]\n    return f.y",
        "op mine, equation y: a has axes [] but is read as a[0]; it has none: read it as a[()]",
    ),
    "empty_tuple": (
        "f, x: tensor[n, d]",
        "f.y[n, ()] = x[n, 0]\n    return f.y",
        "op mine, equation y: () merges no axes; write two axes or more in brackets of their own: (t, e)",
    ),
    "place_in_a_merge": (
        "f, x: tensor[n, d]",
        "f.y[n, t] = x[n, (0, t)] * x[n, (1, t)]\n    return f.y",
        "op mine, equation y: (0, t) merges no axes; take it apart before, f.z[…, p, h] = x[…, (p, h)], and read a place of that: f.z[…, 0, h]",
    ),
    "bad_fixed": (
        None,
        'q = axes("q=0")\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d]\n    return f.y',
        "'0' is no length of axis q; write a whole number above 0: axes(\"q=2\")",
    ),
    "fixed_const_out": (
        None,
        'q = axes("q=2")\n@op\ndef mine(f, x: tensor[n, q]):\n    f.y[n] = x[n, 2]\n    return f.y',
        "op mine, equation y: x[n, 2] reads beyond the end of axis q, whose length is 2; count from 0",
    ),
    "fixed_mix": (
        None,
        'q = axes("q=2")\nq2 = axes("q")\n@op\ndef mine(f, x: tensor[n, q], z: tensor[n, q2]):\n    f.y[n, q] = x[n, q] * z[n, q]\n    return f.y',
        "op mine: two axes are called q, one of length 2, one of any length; rename one of them",
    ),
    "prod": (
        "f, x: tensor[n, d]",
        "f.y[n] = prod(x[n, d], over=d)\n    return f.y",
        "op mine, equation y: prod is no part of the notation; write exp(sum(log(x[n, d]), over=d)) of positive values",
    ),
    "cumsum": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = cumsum(x[n, d], over=d)\n    return f.y",
        "op mine, equation y: cumsum is no part of the notation; write sum(where(j <= i, x[n, j], 0), over=j)",
    ),
    "merge_declared": (
        "f, x: tensor[n, (t, e)]",
        "f.y[n] = sum(x[n, t], over=t)\n    return f.y",
        "op mine: (t, e) merges axes where tensor[…] declares them; declare one axis, and take it apart in an equation: f.z[…, t, e] = x[…, (t, e)]",
    ),
    "before_the_first": (
        "f, x: tensor[n, t], w: tensor[k]",
        "f.y[n, t] = sum(x[n, t - k] * w[k], over=k)\n    return f.y",
        "op mine, equation y: x[n, -k + t] reads before the first place of axis t; read it under a condition on its places that keeps it inside, such as where(t >= 1, x[…, t - 1], 0), shift the axis so that places start at 0, concat what stands before them, or add up what lies on the axis, such as sum(where(eq(u + 1, t), x[…, u], 0), over=u)",
    ),
    "halved_place": (
        "f, x: tensor[n, t], long: length(k)",
        "f.y[n, k] = x[n, k // 2]\n    return f.y",
        'op mine, equation y: index k // 2 is not axis arithmetic; repeat each place by a merge on the left: f.y[…, (h, p)] = x[…, h], with p = axes("p=2") for twice',
    ),
    "rolled": (
        "f, x: tensor[n, t], w: tensor[k]",
        "f.y[n, t] = sum(w[k] * x[n, (t + k) % size(t)], over=k)\n    return f.y",
        "op mine, equation y: index (k + t) % size(t) is not axis arithmetic; on a circle go by whole numbers and axes of fixed length, (t + k - 1) % size(t), join the places in their new order: f.z[…, k] = concat(…, along=k), or read an index(...)",
    ),
    "deriv_missing": (
        None,
        "from sympy import besselj\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = besselj(0, x[n, d])\n    return f.y",
        "op mine, equation y: besselj is no function of the notation; use exp, log, powers, sin, tanh, erf and the like",
    ),
    "sympy_sum": (
        None,
        'from sympy import Sum, Symbol\nq = Symbol("q")\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = Sum(x[n, d] * q, (q, 0, 3))\n    return f.y',
        "op mine, equation y: SymPy is asked for Sum of q*x[n, d], which has its values as the op runs; write a sum over an axis, sum(x[n, d], over=d), and an integral in closed form",
    ),
    "sympy_symbol": (
        None,
        'from sympy import Symbol\nq = Symbol("q")\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d] * q\n    return f.y',
        'op mine, equation y: q is no axis, input or equation of this op; declare an axis with axes("…"), or a number as an input: scalar',
    ),
    "op_paren_name": (
        None,
        '@op("mine")\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d]\n    return f.y',
        "@op is given 'mine'; write @op above a function of equations",
    ),
    "pad_read_short": (
        "f, x: tensor[t], z: tensor[k]",
        "f.pad[k] = concat(0, x[t], along=k)\n    f.y[t] = f.pad[t] * z[0]\n    return f.y",
        "op mine, equation y: axis k has length size(t) + 1, which is never size(t); give axes whose lengths differ names of their own",
    ),
    "input_read_long": (
        "f, x: tensor[t], z: tensor[k]",
        "f.pad[k] = concat(0, x[t], along=k)\n    f.y[k] = f.pad[k] * z[k] * x[k]\n    return f.y",
        "op mine, equation y: axis t has length size(t), which is never size(t) + 1; give axes whose lengths differ names of their own",
    ),
    "halves_of_odd": (
        "f, x: tensor[t], z: tensor[i], w: tensor[k]",
        "f.a[k] = concat(x[t], x[t], along=k)\n    f.b[k] = concat(z[i], 0, z[i], along=k)\n    f.y[k] = f.a[k] * f.b[k] + w[k]\n    return f.y",
        "op mine, equation b: axis k has length 2*size(t), which is never 2*size(i) + 1; give axes whose lengths differ names of their own",
    ),
    "window_too_far": (
        "f, x: tensor[t]",
        "f.pad[k] = concat(0, x[t], along=k)\n    f.y[t] = f.pad[t + 2]\n    return f.y",
        "op mine, equation y: pad[t + 2] needs size(t) + 2 places of axis k, which never has more than size(t) + 1; give axes whose lengths differ names of their own",
    ),
    "half_of_a_whole": (
        "f, x: tensor[t]",
        "f.y[k] = x[k] * x[k + size(k)]\n    return f.y",
        'op mine, equation y: x[k + size(k)] needs 2*size(t) places of axis t, which never has more than size(t); say where in t a part of it begins, k + size(t) // 2, or take it apart before, f.z[…, p, k] = x[…, (p, k)] with p = axes("p=2"), and read f.z[…, 1, k]',
    ),
    "halves_without_a_length": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = concat(-x[n, c + size(c)], x[n, c], along=d)\n    return f.y",
        "op mine, equation y: axis d has length size(d), which is 2*size(d) only where both are 0; say how long axis c is, with a parameter such as count: length(c)",
    ),
    "fixed_read_by_fixed": (
        None,
        'p, q = axes("p=2 q=3")\n@op\ndef mine(f, x: tensor[n, p]):\n    f.y[n, q] = x[n, q]\n    return f.y',
        "op mine, equation y: axis p has length 2, which is never 3; give axes whose lengths differ names of their own",
    ),
    "word_hidden": (
        "f, x: tensor[n, d], exp: tensor[d]",
        "f.y[n, d] = exp(x[n, d]) * exp[d]\n    return f.y",
        "op mine, equation y: a tensor or a number is called like a function ('Handle' object is not callable); read an element with […], and call no input by a word of the notation",
    ),
    "read_in_steps": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d][d]\n    return f.y",
        "op mine, equation y: an element is read like a tensor ('At' object is not subscriptable); give all indices at once: x[n, d]",
    ),
    "read_by_a_list": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[[n, d]]\n    return f.y",
        "op mine, equation y: a list stands where indices do (unhashable type: 'list'); write them without brackets of their own: x[n, d]",
    ),
    "square_brackets": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = exp[x[n, d]]\n    return f.y",
        "op mine, equation y: a function is read like a tensor (type 'exp' is not subscriptable); write round brackets: exp(x[n, d])",
    ),
    "round_brackets": (
        "f, x: tensor(n, d)",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: tensor(…) is called; write axes in square brackets: tensor[n, d]",
    ),
    "length_of_axis": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / len(d)\n    return f.y",
        "op mine, equation y: an axis is no list (object of type 'Axis' has no len()); the length of an axis is size(d)",
    ),
    "conditions_unbracketed": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0 & x[n, d] < 1, x[n, d], 0)\n    return f.y",
        "op mine, equation y: & and | bind before comparisons do (unsupported operand type(s) for &: 'int' and 'At'); put each comparison in brackets: (a > 0) & (b < 1)",
    ),
    "power_of_condition": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] ** (x[n, d] > 0)\n    return f.y",
        "op mine, equation y: calculates with a condition (unsupported operand type(s) for ** or pow(): 'At' and 'Above'); write where(condition, 1, 0)",
    ),
    "dots_twice": (
        "f, x: tensor[..., n, ...]",
        "f.y[..., n] = x[..., n, ...]\n    return f.y",
        "op mine: `...` stands twice in tensor[…]; write it once, and an axis for each other",
    ),
    "default_of_text": (
        "f, x: tensor[n, d], eps: scalar = '1e-5'",
        "f.y[n, d] = x[n, d] + eps\n    return f.y",
        "op mine: the default of eps is '1e-5', no number; write eps: scalar = 1e-5",
    ),
    "default_of_none": (
        "f, x: tensor[n, d], eps: scalar = None",
        "f.y[n, d] = x[n, d] + eps\n    return f.y",
        "op mine: the default of eps is None, no number; write eps: scalar = 1e-5",
    ),
    "length_of_a_fraction": (
        "f, x: tensor[n, d], heads: length(k) = 2.5",
        "f.y[n, k] = x[n, 0]\n    return f.y",
        "op mine: the default of heads is 2.5, no length; write a whole number: heads = 4",
    ),
    "nan": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = float('nan') * x[n, d]\n    return f.y",
        "op mine, equation y: divides by zero, or holds nan; write an expression that is finite",
    ),
    "calculated_place": (
        "f, x: tensor[n, d], y: index(d)[n]",
        "f.z[n] = x[n, y[n] + 1]\n    return f.z",
        "op mine, equation z: index y[n] + 1 of x calculates with what is read; pass the places themselves as an input, index(…)[…], or move what is read: f.moved[…, d] = where(d + 1 < size(d), x[…, d + 1], 0), then f.moved[…, y[n]]",
    ),
    "calculated_place_before": (
        "f, x: tensor[n, d], y: index(d)[n]",
        "f.z[n] = x[n, y[n] - 1]\n    return f.z",
        "op mine, equation z: index y[n] - 1 of x calculates with what is read; pass the places themselves as an input, index(…)[…], or move what is read: f.moved[…, d] = where(d >= 1, x[…, d - 1], 0), then f.moved[…, y[n]]",
    ),
    "turned_by_half": (
        "f, x: tensor[n, t]",
        "f.y[n, t] = x[n, (t + size(t) // 2) % size(t)]\n    return f.y",
        "op mine, equation y: index (t + size(t) // 2) % size(t) is not axis arithmetic; on a circle go by whole numbers and axes of fixed length, (t + k - 1) % size(t), join the places in their new order: f.z[…, k] = concat(…, along=k), or read an index(...)",
    ),
    "range_that_nothing_has": (
        "f, x: tensor[n, d], y: index(c)[n]",
        "f.z[i, j] = where(eq(y[i], y[j]), x[i, 0] * x[j, 0], 0)\n    return f.z",
        "op mine: the values of y run over axis c, which no input carries; declare y: constant[n] where it is only compared, or give an argument c_length: length(c)",
    ),
    "clip": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = clip(x[n, d], 0, 1)\n    return f.y",
        "op mine, equation y: clip is no part of the notation; write minimum(maximum(x[n, d], low), high)",
    ),
    "op_of_the_catalogue": (
        "f, x: tensor[n, d]",
        "f.y = softmax(x)\n    return f.y",
        "op mine, equation y: softmax is not defined; write `from derive.ops.activations import softmax`, and name its result: f.a = softmax(x)",
    ),
    "number_not_declared": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] + eps\n    return f.y",
        'op mine, equation y: eps is not defined; declare a number as an input, eps: scalar = 1e-5, an axis with eps = axes("eps"), or import the function',
    ),
    "kind_of_another_case": (
        "f, x: Tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    return f.y",
        "op mine: Tensor is not defined; did you mean tensor?",
    ),
    "reduction_read": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = amax(x[n, d], over=n)[d] - x[n, d]\n    return f.y",
        "op mine, equation y: an expression is read like a tensor ('Reduce' object is not subscriptable); write it as an equation, f.a[n] = …, and read f.a[n]",
    ),
    "leading_axes_read_apart": (
        "f, x: tensor[...]",
        "f.y[...] = sum(x[..., d], over=d)\n    return f.y",
        "op mine, equation y: x has axes [...] but is read as x[..., d]; `...` is no axis that can be named apart: declare x with the axes [..., d]",
    ),
    "two_names_of_one_axis": (
        "f, h: tensor[n, d], w: tensor[k, d], u: tensor[c], y: index(c)[n]",
        "f.z[n, k] = sum(h[n, d] * w[k, d], over=d)\n    f.y_[n] = f.z[n, y[n]] * u[y[n]]\n    return f.y_",
        "op mine, equation y_: y runs over axis c but is read as an index of axis k; give that axis one name: write f.z[n, c] = …, or declare y: index(k)[…]",
    ),
    "two_names_of_one_axis_in_a_square": (
        "f, u: tensor[n, c], w: tensor[c, k], y: index(c)[n], z: index(c)[n]",
        "f.y_[n] = u[n, y[n]] + w[y[n], y[n]] ** 2\n    return f.y_",
        "op mine, equation y_: y runs over axis c but is read as an index of axis k; declare w: tensor[c, c], whose dimensions have the same places",
    ),
    "typo_of_a_short_name": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * xx[n, d]\n    return f.y",
        "op mine, equation y: xx is not defined; did you mean x?",
    ),
    "typo_of_an_equation": (
        "f, x: tensor[n, d]",
        "f.scores[n] = mean(x[n, d], over=d)\n    f.y[n, d] = x[n, d] - score[n]\n    return f.y",
        "op mine, equation y: score is not defined; did you mean f.scores[…]?",
    ),
    "tensor_of_another_case": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * X[n, d]\n    return f.y",
        "op mine, equation y: X is not defined; did you mean x?",
    ),
    "tensor_not_declared": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = q[d] * x[n, d]\n    return f.y",
        "op mine, equation y: q is not defined; declare it as an input, q: tensor[…], or write f.q[…] = … before and read f.q[…]",
    ),
    "equation_without_f": (
        "f, x: tensor[n, d]",
        "y[n, d] = 2 * x[n, d]\n    return f.y",
        "op mine: y is not defined; an equation begins with the frame: write f.y[…] = …",
    ),
    "infinity": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0, x[n, d], -inf)\n    return f.y",
        "op mine, equation y: inf is no part of the notation; write oo",
    ),
    "norm": (
        "f, x: tensor[n, d]",
        "f.y[n] = norm(x[n, d], over=d)\n    return f.y",
        "op mine, equation y: norm is no part of the notation; write sqrt(sum(x[n, d] ** 2, over=d))",
    ),
    "max_over": (
        "f, x: tensor[n, d]",
        "f.y[n] = max(x[n, d], over=d)\n    return f.y",
        "op mine, equation y: 'over' is an invalid keyword argument for max(); write amax(x[n, d], over=d), or maximum(a, b) of two values",
    ),
    "max_of_one": (
        "f, x: tensor[n, d]",
        "f.y[n] = max(x[n, d])\n    return f.y",
        "op mine, equation y: an element is used like a list ('At' object is not iterable); write sum(x[n, d], over=d), or mean, amax, amin; maximum(a, b) of two values",
    ),
    "exp_of_two": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = exp(x[n, d], 2)\n    return f.y",
        "op mine, equation y: exp takes exactly 1 argument (2 given); write exp(x[n, d])",
    ),
    "maximum_of_three": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = maximum(x[n, d], 1, 2)\n    return f.y",
        "op mine, equation y: maximum takes exactly 2 arguments (3 given); write maximum(a, b); of more, maximum(a, maximum(b, c))",
    ),
    "maximum_of_one": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = maximum(x[n, d])\n    return f.y",
        "op mine, equation y: maximum takes exactly 2 arguments (1 given); write maximum(a, b); of more, maximum(a, maximum(b, c))",
    ),
    "eq_of_one": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(eq(n), x[n, d], 0)\n    return f.y",
        "op mine, equation y: eq() missing 1 required positional argument: 'b'; write eq(a, b)",
    ),
    "frame_indexed": (
        "f, x: tensor[n, d]",
        "f[n] = x[n, 0]\n    return f.y",
        "op mine: f holds the equations and is no tensor ('Frame' object does not support item assignment); name the tensor: write f.y[n] = …, and read f.y[n]",
    ),
    "not_of_an_element": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(~x[n, d], 1, 0)\n    return f.y",
        "op mine, equation y: ~ stands before what is no condition (bad operand type for unary ~: 'At'); compare it first: ~(x[n, d] > 0)",
    ),
    "list_added": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] + [1, 2]\n    return f.y",
        "op mine, equation y: calculates with what is no number (unsupported operand type(s) for +: 'At' and 'list'); write elements, axes and numbers",
    ),
    "text_multiplied": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 'w[d]'\n    return f.y",
        "op mine, equation y: calculates with what is no number (can't multiply sequence by non-int of type 'At'); write elements, axes and numbers",
    ),
    "text": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = '2 * x[n, d]'\n    return f.y",
        "op mine, equation y: '2 * x[n, d]' is no expression; write one value, made of elements and numbers",
    ),
    "text_summed": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum('x[n, d]', over=d)\n    return f.y",
        "op mine, equation y: 'x[n, d]' is no expression; write one value, made of elements and numbers",
    ),
    "two_values": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d], 2\n    return f.y",
        "op mine, equation y: (x[n, d], 2) is no expression; write one value, made of elements and numbers",
    ),
    "generator_summed": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum((x[n, q] for q in range(3)), over=d)\n    return f.y",
        "op mine, equation y: a generator is no expression; write one value, made of elements and numbers",
    ),
    "list_summed": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum([x[n, 0], x[n, 1]], over=d)\n    return f.y",
        "op mine, equation y: [x[n, 0], x[n, 1]] is no expression; write one value, made of elements and numbers",
    ),
    "nothing_chosen": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0, x[n, d], None)\n    return f.y",
        "op mine, equation y: None is no expression; write one value, made of elements and numbers",
    ),
    "nothing_joined": (
        "f, x: tensor[n, d]",
        "f.y[n, k] = concat(x[n, d], None, along=k)\n    return f.y",
        "op mine, equation y: None is no expression; write one value, made of elements and numbers",
    ),
    "function_of_nothing": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = relu(None)\n    return f.y",
        "op mine, equation y: None stands where an element or a number does; write elements and numbers",
    ),
    "function_of_a_list": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = sigmoid([x[n, d]])\n    return f.y",
        "op mine, equation y: [x[n, d]] stands where an element or a number does; write elements and numbers",
    ),
    "text_compared": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = delta('n', n) * x[n, d]\n    return f.y",
        "op mine, equation y: 'n' is no expression; write one value, made of elements and numbers",
    ),
    "condition_chosen": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0, x[n, d] > 1, 1)\n    return f.y",
        "op mine, equation y: calculates with a condition, x[n, d] > 1; write where(condition, 1, 0)",
    ),
    "truth_chosen": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(x[n, d] > 0, True, False)\n    return f.y",
        "op mine, equation y: calculates with a condition, True; write where(condition, 1, 0)",
    ),
    "condition_summed": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d] > 0, over=d)\n    return f.y",
        "op mine, equation y: calculates with a condition, x[n, d] > 0; write where(condition, 1, 0)",
    ),
    "function_of_a_condition": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = relu(x[n, d] > 0)\n    return f.y",
        "op mine, equation y: calculates with a condition, x[n, d] > 0; write where(condition, 1, 0)",
    ),
    "maximum_of_a_condition": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = maximum(x[n, d] > 0, 1)\n    return f.y",
        "op mine, equation y: calculates with a condition (Can only compare inequalities with Expr); write where(condition, 1, 0)",
    ),
    "condition_joined": (
        "f, x: tensor[n, d]",
        "f.y[n, k] = concat(x[n, d], x[n, d] > 0, along=k)\n    return f.y",
        "op mine, equation y: calculates with a condition, x[n, d] > 0; write where(condition, 1, 0)",
    ),
    "tensor_of_torch_multiplied": (
        "f, x: tensor[n, d]",
        "import torch\n    f.y[n, d] = x[n, d] * torch.zeros(3)\n    return f.y",
        "op mine, equation y: a tensor of numbers stands in an expression; pass it as an input, c: constant[n], and read its elements: c[n]",
    ),
    "nothing_compared": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = where(eq(x[n, d], None), 1, 0)\n    return f.y",
        "op mine, equation y: None is no expression; write one value, made of elements and numbers",
    ),
    "tensor_of_torch_chosen": (
        "f, x: tensor[n, d]",
        "import torch\n    f.y[n, d] = where(x[n, d] > 0, torch.zeros(3), 0)\n    return f.y",
        "op mine, equation y: a tensor of numbers stands in an expression; pass it as an input, c: constant[n], and read its elements: c[n]",
    ),
    "transposed": (
        "f, x: tensor[n, d]",
        "f.y[d, n] = x.T[d, n]\n    return f.y",
        "op mine, equation y: x has no T; the axes on the left say the order: f.y[d, n] = x[n, d]",
    ),
    "method_of_all": (
        "f, x: tensor[n, d]",
        "f.y[()] = x.sum()\n    return f.y",
        "op mine, equation y: x has no sum; write sum(x[n, d], over=d)",
    ),
    "method_by_axis": (
        "f, x: tensor[n, d]",
        "f.y[n] = x.max(d)\n    return f.y",
        "op mine, equation y: x has no max; write amax(x[n, d], over=d)",
    ),
    "method_of_functions": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x.exp()[n, d]\n    return f.y",
        "op mine, equation y: x has no exp; write exp(x[n, d])",
    ),
    "method_of_an_equation": (
        "f, x: tensor[n, d]",
        "f.z[n, d] = 2 * x[n, d]\n    f.y[n] = f.z.sum(d)\n    return f.y",
        "op mine, equation y: z has no sum; write sum(f.z[n, d], over=d)",
    ),
    "viewed": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x.view(n, d)\n    return f.y",
        "op mine, equation y: x has no view; merge axes on the left, f.y[n, (t, e)] = x[n, t, e], and take them apart on the right, x[n, (t, e)]",
    ),
    "unsqueezed": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x.unsqueeze(0)[n, d]\n    return f.y",
        "op mine, equation y: x has no unsqueeze; what lacks an axis is broadcast along it: leave the axis out",
    ),
    "dimension": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / x.dim()\n    return f.y",
        "op mine, equation y: x has no dim; the length of an axis is size(d)",
    ),
    "method_unknown": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x.softmax(d)\n    return f.y",
        "op mine, equation y: x has no softmax; write functions around elements, such as exp(x[n, d])",
    ),
    "element_transposed": (
        "f, x: tensor[n, d]",
        "f.y[d, n] = x[n, d].T\n    return f.y",
        "op mine, equation y: an element has no T; the axes on the left say the order: f.y[d, n] = x[n, d]",
    ),
    "returns_a_list": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return [f.y]",
        "op mine: returns a list; return f.y",
    ),
    "returns_a_list_of_two": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return [f.y, f.z]",
        "op mine: returns a list; return f.y, f.z",
    ),
    "returns_nested": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return f.y, (f.z,)",
        "op mine: returns a tuple inside a tuple; return f.y, or several: return f.y, f.z",
    ),
    "returns_a_dictionary": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return {'y': f.y}",
        "op mine: returns a dictionary; return f.y, or several: return f.y, f.z",
    ),
    "returns_the_frame": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return f",
        "op mine: returns the frame f itself; return f.y, or several: return f.y, f.z",
    ),
    "returns_a_number": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return 1",
        "op mine: returns 1, which is no tensor; return f.y, or several: return f.y, f.z",
    ),
    "returns_text": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return 'y'",
        "op mine: returns 'y', which is no tensor; return f.y, or several: return f.y, f.z",
    ),
    "returns_an_expression": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return f.y[n, d] * 2",
        "op mine: returns an expression, 2*y[n, d]; name it by an equation, f.y[…] = …, and return f.y",
    ),
    "returns_a_reduction": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return sum(f.y[n, d], over=d)",
        "op mine: returns an expression, sum(y[n, d], over=d); name it by an equation, f.y[…] = …, and return f.y",
    ),
    "returns_an_axis": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return n",
        "op mine: returns an expression, n; return what an equation defines, such as f.y",
    ),
    "returns_an_element_of_an_input": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return x[n, d]",
        "op mine: returns an expression, x[n, d]; name it by an equation, f.y[…] = …, and return f.y",
    ),
    "returns_a_sum_of_tensors": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return f.y + f.z",
        "op mine: y is used without its axes; read one element: f.y[n, d]",
    ),
    "returns_a_name": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    f.z[n, d] = 3 * x[n, d]\n    return y",
        "op mine: y is not defined; an equation is read back as f.y[…]",
    ),
    "yields": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 2 * x[n, d]\n    yield f.y",
        "op mine: returns a generator; return f.y, or several: return f.y, f.z",
    ),
    "kind_without_axes": (
        "f, x: tensor",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: input x is tensor without its axes; write x: tensor[n, d], or x: tensor[()] where it has none",
    ),
    "constant_without_axes": (
        "f, x: tensor[n, d], m: constant",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: input m is constant without its axes; write m: constant[n, d], or m: constant[()] where it has none",
    ),
    "index_without_axes": (
        "f, x: tensor[n, d], ix: index(d)",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: input ix is index(d) without its axes; write ix: index(d)[n, d], or ix: index(d)[()] where it has none",
    ),
    "index_of_nothing": (
        "f, x: tensor[n, d], ix: index",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: input ix does not say which axis it is of; write ix: index(c)[n]",
    ),
    "length_of_nothing": (
        "f, x: tensor[n, d], heads: length",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: input heads does not say which axis it is of; write heads: length(h)",
    ),
    "length_in_square_brackets": (
        "f, x: tensor[n, d], heads: length[k]",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: length[…] has axes; name the axis in round brackets: length(h)",
    ),
    "kind_of_python": (
        "f, x: float",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: input x has no kind; annotate it: x: tensor[n, d], index(c)[n], constant[n] or scalar",
    ),
    "kind_as_text": (
        "f, x: 'tensor[n, d]'",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: the kind of input x is a text; write it without quotes: x: tensor[n, d]",
    ),
    "annotated_by_a_slice": (
        "f, x: tensor[:, d]",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: a slice `:` is not an axis; name every axis: tensor[n, d]",
    ),
    "annotated_by_a_text": (
        "f, x: tensor['n', d]",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: 'n' is not an axis; write its name without quotes",
    ),
    "annotated_by_arithmetic": (
        "f, x: tensor[n, 2 * d]",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: 2*d is not an axis; declare an axis of its own: its length is that of the input",
    ),
    "annotated_by_a_size": (
        "f, x: tensor[n, size(d)]",
        "f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: size(d) is not an axis; declare an axis of its own: its length is that of the input",
    ),
    "axes_in_two_texts": (
        None,
        'a, b = axes("a", "b")',
        'axes() is given several texts; write them as one: axes("a b")',
    ),
    "axes_fewer_than_names": (
        None,
        'a, b = axes("a")',
        'there are not as many names as axes; give each axis a name: n, d = axes("n d"), d = axes("d")',
    ),
    "axes_more_than_names": (
        None,
        'a, b = axes("a b c")',
        'there are not as many names as axes; give each axis a name: n, d = axes("n d"), d = axes("d")',
    ),
    "over_a_text": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d], over='d')\n    return f.y",
        "op mine, equation y: sum(…, over='d'): not an axis; write it without quotes: d",
    ),
    "over_a_position": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d], over=-1)\n    return f.y",
        "op mine, equation y: sum(…, over=-1): not an axis; name the axis, not its position: d",
    ),
    "over_nothing": (
        "f, x: tensor[n, d]",
        "f.y[n] = mean(x[n, d], over=None)\n    return f.y",
        'op mine, equation y: mean(…, over=None): not an axis; declare it with axes("…")',
    ),
    "over_an_element": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d], over=x[n, d])\n    return f.y",
        'op mine, equation y: sum(…, over=x[n, d]): not an axis; name an axis, such as d, declared with axes("…")',
    ),
    "size_of_a_tensor": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / size(x)\n    return f.y",
        'op mine, equation y: size(x): not an axis; name an axis, such as d, declared with axes("…")',
    ),
    "place_on_the_left": (
        "f, x: tensor[n, d]",
        "f.y[n, 0] = x[n, 0]\n    return f.y",
        "op mine, equation y: the left side holds 0, which is no axis; say what stands at each place: where(eq(d, 0), a, b), or concat(a, b, along=d)",
    ),
    "kept_on_the_left": (
        "f, x: tensor[n, d]",
        "f.y[n, 1] = mean(x[n, d], over=d)\n    return f.y",
        "op mine, equation y: the left side holds 1, which is no axis; leave an axis of length 1 out, tensors broadcast by the names of axes; or say what stands at each place: where(eq(d, 0), a, b), or concat(a, b, along=d)",
    ),
    "shifted_on_the_left": (
        "f, x: tensor[n, d]",
        "f.y[n, d + 1] = x[n, d]\n    return f.y",
        "op mine, equation y: the left side holds d + 1, which is no axis; write axes, or (t, e) to merge two; concat puts places before or behind others",
    ),
    "scattered_on_the_left": (
        "f, x: tensor[n, d], ix: index(d)[n]",
        "f.y[ix[n]] = x[n, 0]\n    return f.y",
        "op mine, equation y: the left side holds ix[n], which is no axis; add up what goes to a place: f.y[…, c] = sum(where(eq(…, c), …, 0), over=…)",
    ),
    "message_of_many_lines": (
        "f, x: tensor[n, d]",
        "raise ValueError('of two\\nlines')",
        "op mine: ValueError: of two lines; correct the spec",
    ),
    "derivative_of_sympy": (
        "f, x: tensor[n, d], w: tensor[d]",
        "from sympy import diff\n    f.u[n, d] = x[n, d] * w[d]\n    f.y[n, d] = diff(f.u[n, d], x[n, d])\n    return f.y",
        "op mine, equation y: SymPy is asked for diff of u[n, d], which has its values as the op runs; write the entry of a Jacobian, derivative(f.u[n], x[n, d]), of elements that have names",
    ),
    "derivative_through_a_recurrence": (
        "f, x: tensor[n, t], z: tensor[n]",
        "f.h[n, -1] = z[n]\n    f.h[n, t] = x[n, t] * f.h[n, t - 1]\n    f.y[n, t] = derivative(f.h[n, t], z[n])\n    return f.y",
        "op mine, equation y: derivative(h[n, t], z[n]) goes through a recurrence, of which a spec has none yet; take it of what reads no state, or of one step: by the state one place earlier",
    ),
    "derivative_by_integers": (
        "f, x: tensor[n, d], ix: index(d)[n]",
        "f.u[n] = x[n, ix[n]]\n    f.y[n] = derivative(f.u[n], ix[n])\n    return f.y",
        "op mine, equation y: the derivative by ix[n] is by integers; differentiate by a real tensor: an input of tensor[…] or constant[…], or an equation",
    ),
    "derivative_of_integers": (
        "f, x: tensor[n, d], ix: index(d)[n]",
        "f.y[n] = derivative(ix[n], x[n, 0])\n    return f.y",
        "op mine, equation y: the derivative of ix[n] is of integers; differentiate a real tensor, such as f.u[n]",
    ),
    "derivative_by_a_number": (
        "f, x: tensor[n, d], s: scalar",
        "f.u[n, d] = s * x[n, d]\n    f.y[n, d] = derivative(f.u[n, d], s)\n    return f.y",
        "op mine, equation y: the derivative by s is by a number of the caller's; declare s as a tensor of one number, s: constant[()], and write s[()]",
    ),
    "derivative_of_an_expression": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = derivative(x[n, d] ** 2, x[n, d])\n    return f.y",
        "op mine, equation y: the derivative of x[n, d]**2 is not of one element of a tensor; give it an equation, f.u[…] = x[n, d]**2, and write f.u[…] in its place",
    ),
    "derivative_by_an_expression": (
        "f, x: tensor[n, d]",
        "f.u[n, d] = x[n, d] ** 2\n    f.y[n, d] = derivative(f.u[n, d], 2 * x[n, d])\n    return f.y",
        "op mine, equation y: the derivative by 2*x[n, d] is not by one element of a tensor; give it an equation before what reads it, f.v[…] = 2*x[n, d], and write f.v[…] here and there",
    ),
    "derivative_by_a_tensor": (
        "f, x: tensor[n, d]",
        "f.u[n, d] = x[n, d] ** 2\n    f.y[n, d] = derivative(f.u[n, d], x)\n    return f.y",
        "op mine, equation y: x is used without its axes; read one element: x[n, d]",
    ),
    "derivative_of_what_is_below": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = derivative(f.u[n, d], x[n, d])\n    f.u[n, d] = x[n, d] ** 2\n    return f.y",
        "op mine, equation y: reads u, which no equation defines; define u in an equation before this one",
    ),
    "derivative_of_other_axes": (
        "f, x: tensor[n, d]",
        "f.u[n] = x[n, 0] ** 2\n    f.y[n] = derivative(f.u[n], x[n])\n    return f.y",
        "op mine, equation y: x has axes [n, d] but is read as x[n]; give x exactly 2 indices",
    ),
    "derivative_with_stray_axes": (
        "f, x: tensor[n, d]",
        "f.u[n] = x[n, 0] ** 2\n    f.y[n] = derivative(f.u[n], x[n, d])\n    return f.y",
        "op mine, equation y: axis d stands on the right only; put d on the left, or say how it is reduced: sum(…, over=d); its length is size(d)",
    ),
    "derivative_by_two_runs": (
        "f, x: tensor[..., d]",
        "f.v[d] = mean(x[..., d] ** 2, over=...)\n    f.z[..., d] = x[..., d] / f.v[d]\n    f.u[d] = sum(f.z[..., d] ** 3, over=...)\n    f.w[..., d] = x[..., d] * f.u[d]\n    f.y[..., d] = derivative(f.w[..., d], x[..., d])\n    return f.y",
        "op mine, equation y: a derivative of z by x has `...` twice, once of each; name the axes: tensor[n, d] in the place of tensor[..., d]",
    ),
    "dots_of_no_input": (
        "f, x: tensor[n, d]",
        "f.y[..., n] = x[n, 0]\n    return f.y",
        "op mine, equation y: no input has `...`, so nothing tells which axes it stands for; declare an input with it, such as x: tensor[..., d], or name the axes",
    ),
    "dots_that_are_not_declared": (
        "f, x: tensor[n, d]",
        "f.y[..., n] = x[..., n, 0]\n    return f.y",
        "op mine, equation y: x has axes [n, d] and no `...`, but is read as x[..., n, 0]; read x[n, d], or declare it with `...`",
    ),
    "dots_for_an_axis": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[..., d], over=d)\n    return f.y",
        "op mine, equation y: x has axes [n, d] and no `...`, but is read as x[..., d]; read x[n, d], or declare it with `...`",
    ),
    "one_past_the_end": (
        "f, x: tensor[n, d]",
        "f.y[n] = x[n, size(d)]\n    return f.y",
        "op mine, equation y: x[n, size(d)] reads beyond the end of axis d, whose places are 0 to size(d) - 1; the last one is -1",
    ),
    "two_past_the_end": (
        "f, x: tensor[n, d]",
        "f.y[n] = x[n, size(d) + 1]\n    return f.y",
        "op mine, equation y: x[n, size(d) + 1] reads beyond the end of axis d, whose places are 0 to size(d) - 1; the last one is -1",
    ),
    "one_before_the_first": (
        "f, x: tensor[n, d]",
        "f.y[n] = x[n, -1 - size(d)]\n    return f.y",
        "op mine, equation y: x[n, -size(d) - 1] reads before the first place of axis d; the first place is 0, and -1 the last",
    ),
    "before_the_first_of_a_few": (
        None,
        'q = axes("q=2")\n@op\ndef mine(f, x: tensor[n, q]):\n    f.y[n] = x[n, -3]\n    return f.y',
        "op mine, equation y: x[n, -3] reads before the first place of axis q, whose length is 2; the first place is 0, and -1 the last",
    ),
    "logsigmoid": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = logsigmoid(x[n, d])\n    return f.y",
        "op mine, equation y: logsigmoid is no part of the notation; write -softplus(-x[n, d])",
    ),
    "stop_gradient": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] - stop_gradient(x[n, d])\n    return f.y",
        "op mine, equation y: stop_gradient is no part of the notation; compute it before and pass it as an input that has no gradient, c: constant[n, d]",
    ),
    "detach": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] - x.detach()[n, d]\n    return f.y",
        "op mine, equation y: x has no detach; compute it before and pass it as an input that has no gradient, c: constant[n, d]",
    ),
    "permute": (
        "f, x: tensor[n, d]",
        "f.y[d, n] = permute(x[n, d], 1, 0)\n    return f.y",
        "op mine, equation y: permute is no part of the notation; the axes on the left say the order: f.y[d, n] = x[n, d]",
    ),
    "no_tensor_of_a_functions_name": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / norm[n]\n    return f.y",
        "op mine, equation y: norm is not defined; declare it as an input, norm: tensor[…], or write f.norm[…] = … before and read f.norm[…]",
    ),
    "turned_by_a_sign": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, -d]\n    return f.y",
        "op mine, equation y: x[n, -d] reads before the first place of axis d; from the last place to the first it is size(d) - 1 - d",
    ),
    "number_as_a_place": (
        "f, x: tensor[n, d], a: scalar",
        "f.y[n] = x[n, a]\n    return f.y",
        "op mine, equation y: a is a number of the caller's and stands in an index; declare it as a place, a: index(d)[()], and read it as a[()]",
    ),
    "power_of_a_negative_number": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = (-1) ** x[n, d]\n    return f.y",
        "op mine, equation y: -1 ** … is real of whole exponents alone; write where(eq(d % 2, 0), 1, -1) for a sign that changes with the place",
    ),
    "number_too_large": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = 10**400 * x[n, d]\n    return f.y",
        "op mine, equation y: a number is larger than any that a tensor holds; write a smaller one; what is masked out is -oo",
    ),
    "results_of_one": (
        None,
        "from derive.ops.activations import softmax\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y, f.z = softmax(x)\n    return f.y",
        "op mine: softmax(…) is one tensor; write f.a = softmax(…)",
    ),
    "calls_itself": (
        "f, x: tensor[n, d]",
        "f.y = mine(x)\n    return f.y",
        "op mine, equation y: mine calls itself; carry a state along an axis: f.h[…, t] of f.h[…, t - 1]",
    ),
    "equation_deleted": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d]\n    del f.y\n    return f.y",
        "op mine: f.y is deleted; leave its equation out",
    ),
    "attribute_set": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d]\n    f.y.requires_grad = True\n    return f.y",
        "op mine, equation requires_grad: requires_grad of y is set; write an equation, f.y[…] = …: dtypes, devices and gradients are those of the caller's tensors",
    ),
    "loop_over_an_axis": (
        "f, x: tensor[n, d]",
        "for k in d:\n        f.y[n] = x[n, k]\n    return f.y",
        "op mine: an axis is no number here ('Axis' object is not iterable); an equation holds at all places of its axes: write no loop",
    ),
    "two_outputs_in_one": (
        None,
        "@op\ndef moments(f, x: tensor[..., d]):\n    f.mu[...] = mean(x[..., d], over=d)\n    f.var[...] = mean((x[..., d] - f.mu[...]) ** 2, over=d)\n    return f.mu, f.var\n\n\n@op\ndef mine(f, x: tensor[n, d]):\n    f.s = moments(x)\n    f.y[n, d] = x[n, d] - f.s[n]\n    return f.y",
        "op mine, equation s: f.s is given 2 tensors; give each a name: f.mu, f.var = moments(…)",
    ),
    "a_product_as_an_argument": (
        None,
        "from derive.ops.activations import softmax\n@op\ndef mine(f, x: tensor[n, d], w: tensor[d]):\n    f.y = softmax(x[n, d] * w[d])\n    return f.y",
        "op mine, equation y: softmax: argument x is no tensor of this spec; name it first, f.a[n, d] = w[d]*x[n, d], and pass f.a",
    ),
    "loop_over_a_tensor": (
        "f, x: tensor[n, d]",
        "for row in x:\n        f.y[n, d] = row[d]\n    return f.y",
        "op mine: a tensor is used like a list ('Handle' object is not iterable); the length of an axis is size(d)",
    ),
    "module_not_imported": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = np.sin(x[n, d])\n    return f.y",
        "op mine, equation y: np is not defined; write sin: equations are written in the words of the notation",
    ),
    "module_of_rare_functions": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = np.cosh(x[n, d])\n    return f.y",
        "op mine, equation y: np is not defined; write `from sympy import cosh`: equations are written in the words of the notation",
    ),
    "function_not_defined": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = huberize(x[n, d])\n    return f.y",
        "op mine, equation y: huberize is not defined; define the function huberize before, or import it",
    ),
    "asin_of_two": (
        "f, x: tensor[n, d]",
        "from sympy import asin\n    f.y[n, d] = x[n, d] * asin(2)\n    return f.y",
        "op mine, equation y: holds an imaginary number, asin(2); write real expressions only",
    ),
    "log1p_of_minus_two": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * log1p(-2)\n    return f.y",
        "op mine, equation y: holds an imaginary number, log1p(-2); write real expressions only",
    ),
    "erfinv_of_two": (
        "f, x: tensor[n, d]",
        "from sympy import erfinv\n    f.y[n, d] = x[n, d] * erfinv(2)\n    return f.y",
        "op mine, equation y: erfinv(2) is no number; write real expressions only",
    ),
    "loggamma_of_a_negative": (
        "f, x: tensor[n, d]",
        "from sympy import loggamma\n    f.y[n, d] = x[n, d] + loggamma(-1.5)\n    return f.y",
        "op mine, equation y: holds an imaginary number, loggamma(-3/2); write real expressions only",
    ),
    "root_of_a_negative": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * sqrt(-1)\n    return f.y",
        "op mine, equation y: holds an imaginary number; write real expressions only",
    ),
    "atanh_of_one": (
        "f, x: tensor[n, d]",
        "from sympy import atanh\n    f.y[n, d] = x[n, d] * atanh(1)\n    return f.y",
        "op mine, equation y: calculates with oo, in oo*x[n, d]; write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "log1p_of_minus_one": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] + log1p(-1)\n    return f.y",
        "op mine, equation y: log1p(-1) is infinite, or no number; write an expression that is finite",
    ),
    "exp_overflows": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * exp(10000)\n    return f.y",
        "op mine, equation y: a number is larger than any that a tensor holds; write a smaller one; what is masked out is -oo",
    ),
    "product_of_large_numbers": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 1e200 * 1e200\n    return f.y",
        "op mine, equation y: a number is larger than any that a tensor holds; write a smaller one; what is masked out is -oo",
    ),
    "literal_overflows": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 1e400\n    return f.y",
        "op mine, equation y: calculates with oo, in oo*x[n, d]; write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "plus_oo": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 2 - oo\n    return f.y",
        "op mine, equation y: is infinite at every place: what is calculated with oo is oo; write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "sum_of_oo": (
        "f, x: tensor[n, d]",
        "f.y[n] = sum(x[n, d] + oo, over=d)\n    return f.y",
        "op mine, equation y: is infinite at every place: what is calculated with oo is oo; write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "an_input_hides_an_axis": (
        "f, x: tensor[n, c], c: tensor[n]",
        "f.y[n, d] = x[n, c] * x[n, d]\n    return f.y",
        "op mine, equation y: c is a tensor here, and no index; index by axes, whole numbers, or an index(…) with its axes; an input with an axis's name hides it",
    ),
    "torch_sum": (
        "f, x: tensor[n, d]",
        "import torch\n    f.y[n] = torch.sum(x[n, d], dim=1)\n    return f.y",
        "op mine, equation y: sum of PyTorch takes tensors of numbers; write sum(x[n, d], over=d)",
    ),
    "power_of_oo": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] ** oo\n    return f.y",
        "op mine, equation y: calculates with oo, in x[n, d]**oo; write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "sigmoid_of_oo": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = sigmoid(x[n, d]) + sigmoid(oo)\n    return f.y",
        "op mine, equation y: calculates with oo, in sigmoid(oo); write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "times_float_inf": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * float('inf')\n    return f.y",
        "op mine, equation y: calculates with oo, in oo*x[n, d]; write an expression that is finite: oo stands alone, such as in where(c, x[n], -oo)",
    ),
    "number_too_small": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 1e-320\n    return f.y",
        "op mine, equation y: a number is smaller than any that a tensor holds; write 0",
    ),
    "divided_by_too_much": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] / 10**400\n    return f.y",
        "op mine, equation y: a number is smaller than any that a tensor holds; write 0",
    ),
    "product_of_small_numbers": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 1e-200 * 1e-200\n    return f.y",
        "op mine, equation y: a number is smaller than any that a tensor holds; write 0",
    ),
    "an_index_as_a_tensor": (
        "f, x: index(k)[n, d], w: tensor[d, k]",
        "from derive.ops.arithmetic import matmul\n    f.y = matmul(x, w)\n    return f.y",
        "op mine, equation y: matmul: a holds real numbers, but x holds integers; declare x: tensor[n, d]; where the integers are its numbers, f.a[n, d] = x[n, d]",
    ),
    "a_mask_as_an_index": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, x[n, d] > 0]\n    return f.y",
        "op mine, equation y: x[n, d] > 0 is a condition, and a mask is no index; use where: sum(where(x[n, d] > 0, x[n, d], 0), over=d)",
    ),
    "kind_of_bool": (
        "f, x: tensor[n, d], m: bool[n, d]",
        "f.y[n, d] = where(m[n, d], x[n, d], 0)\n    return f.y",
        "op mine: bool[…] is no kind of input; declare m: constant[n, d], and compare: ne(m[n, d], 0)",
    ),
    "kind_of_float": (
        "f, x: tensor[n, d], m: float[n, d]",
        "f.y[n, d] = m[n, d] * x[n, d]\n    return f.y",
        "op mine: float[…] is no kind of input; declare m: tensor[n, d], or constant[n, d] where it has no gradient",
    ),
    "option_misspelt": (
        None,
        "@op(stepwize=True)\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: @op has no option stepwize; did you mean stepwise?",
    ),
    "option_unknown": (
        None,
        "@op(fast=True)\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: @op has no option fast; it has one, @op(stepwise=True)",
    ),
    "option_no_truth_value": (
        None,
        "@op(stepwise='no')\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: stepwise is 'no'; write @op(stepwise=True), or @op",
    ),
    "async": (
        None,
        "@op\nasync def mine(f, x: tensor[n, d]):\n    f.y[n, d] = x[n, d]\n    return f.y",
        "op mine: it is an async function; write def mine(f, …): a spec runs at once",
    ),
    "float_power_overflows": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d] * 2.0**10000\n    return f.y",
        "op mine, equation y: a number is larger than any that a tensor holds; write a smaller one",
    ),
    "helper_without_end": (
        None,
        "def h(x):\n    return h(x)\n@op\ndef mine(f, x: tensor[n, d]):\n    f.y[n, d] = h(x[n, d])\n    return f.y",
        "op mine, equation y: a function calls itself without end, or an expression is nested too deeply; end the recursion, or give steps names of their own: f.a[…] = …",
    ),
    "returns_an_empty_tuple": (
        "f, x: tensor[n, d]",
        "f.y[n, d] = x[n, d]\n    return ()",
        "op mine: the spec returns nothing; end it with return f.y",
    ),
    "over_a_comparison_with_an_earlier_axis": (
        "f, x: tensor[n, d]",
        "f.y[n, i] = sum(x[n, j], over=j < i)\n    return f.y",
        "op mine, equation y: sum(…, over=j < i): not an axis; say where with where: sum(where(j < i, …, 0), over=j)",
    ),
}
