"""`fairlead up`: operator and gateway of one machine in one process. The only place that knows both."""
