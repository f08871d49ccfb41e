"""Every setting that there is: what it may be, checked where it is given."""
