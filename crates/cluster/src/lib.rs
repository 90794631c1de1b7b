//! One threshold for many processes: limits kept in Redis or Valkey.
