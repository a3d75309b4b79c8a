"""DNS-01 challenges: TXT records that prove domain names, at DNS servers and providers (RFC 8555 section 8.4)."""
