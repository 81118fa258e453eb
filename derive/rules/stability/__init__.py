"""What overflows or loses digits as it is written: exponentials, logarithms, differences."""
