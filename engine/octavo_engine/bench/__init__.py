"""Load generator and measurements behind `octavo bench`."""
