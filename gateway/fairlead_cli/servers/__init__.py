"""The life of servers, seen and hurried: `fairlead refresh` and `fairlead events`."""
