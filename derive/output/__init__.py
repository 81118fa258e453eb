"""What a user gets, proved: a package of files, live functions."""
