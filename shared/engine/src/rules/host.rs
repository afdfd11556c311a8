//! The host of an address.

/// The host that every reader of addresses sees, or none. What readers differ about is refused: user
/// names, backslashes, encoded or control characters, and addresses that are not written out.
pub(super) fn host(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
    let authority = rest.split(['/', '?', '#']).next()?;
    if !is_scheme || scheme.is_empty() {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let address: core::net::Ipv6Addr = address.parse().ok()?;
            is_port(port).then(|| address.to_string())?
        }
        None => {
            let (name, port) = match authority.find(':') {
                Some(at) => authority.split_at(at),
                None => (authority, ""),
            };
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
            if name.is_empty() || !name.bytes().all(is_name) || !is_port(port) {
                return None;
            }
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            // Readers differ about numbers that are not written out.
            let last = name.rsplit('.').next().unwrap_or_default();
            let is_number = last.starts_with("0x") || last.bytes().all(|it| it.is_ascii_digit());
            match !is_number || name.parse::<core::net::Ipv4Addr>().is_ok() {
                true => name,
                false => return None,
            }
        }
    };
    (!host.is_empty()).then_some(host)
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    }
}
