"""Files of data, read by one strict reader, whatever asks for them."""
