"""Commands that read and write topics record by record, with a topology's serdes or as bytes."""
