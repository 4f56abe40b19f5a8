//! The agents' formats, pure: stream-json, control protocol, causes of an end.
