"""What `fairlead up` costs a laptop."""
