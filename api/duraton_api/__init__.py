"""The API, the views, the gateway to runners, the command line and the composition of a node."""
