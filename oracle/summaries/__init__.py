"""What is shown: values of fits and studies gathered into tables."""
