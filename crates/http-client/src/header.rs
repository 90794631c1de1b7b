//! A request header as an argument.

/// Parses `name: value`. The name is returned in lower case.
pub fn parse_header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err("missing colon: write 'name: value', such as 'x-tier: vip'".to_owned());
    };
    let name = name.trim();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
        return Err("invalid header name: use letters, digits and -".to_owned());
    }
    if value.bytes().any(|b| b.is_ascii_control()) {
        return Err("control characters are not allowed in a header value".to_owned());
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}
