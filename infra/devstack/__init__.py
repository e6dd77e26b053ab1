"""Runs the whole product on one machine: builds it, deploys the template, keeps it running."""
