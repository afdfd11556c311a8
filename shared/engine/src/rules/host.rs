//! The host of an address.

/// The text begins as an address that names a host.
pub(super) fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_scheme)
        && !scheme.eq_ignore_ascii_case("file")
}

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
            // `::ffff:127.0.0.1` is 127.0.0.1.
            is_port(port).then(|| address.to_canonical().to_string())?
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
