"""Duraton's records, values, ids and the runner's wire messages.

Everything else imports this package; it imports nothing of the project.
"""
