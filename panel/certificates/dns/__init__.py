"""DNS-01: records that prove domain names, written to DNS servers and providers (RFC 8555 section 8.4)."""
