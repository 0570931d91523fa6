"""`fairlead up`: operator and gateway of one machine in one process. No other package imports both."""
