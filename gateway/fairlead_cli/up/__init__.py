"""`fairlead up`: runs operator and gateway for one machine in one process. No other package imports both."""
