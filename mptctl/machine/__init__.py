"""The machine: cores, packages, versions, devices, signals and Ray."""
