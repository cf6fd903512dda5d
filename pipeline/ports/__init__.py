"""What the steps need from the world, as small protocols in our own words.

Every verb may raise `Transient`, when the service behind it is away; what else it raises is said beside it.
"""
