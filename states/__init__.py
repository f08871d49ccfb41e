"""The lifecycles, declared as data: one file each; nothing here has an effect."""
