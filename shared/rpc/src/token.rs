//! The bearer token of a listener: made, sent by links, and checked.

use crate::error::{ErrorKind, RpcError};
use crate::principal::{Authenticate, Principal};
use crate::server::Peer;
use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;
use subtle::ConstantTimeEq as _;
use thiserror::Error;

/// What a token may be, for error messages.
pub const TOKEN_RULE: &str = "16 to 512 visible ASCII characters";

const SCHEME: &str = "Bearer ";
/// Bytes of a random token: enough that nobody guesses it.
const RANDOM_BYTES: usize = 32;

/// A bearer token. Debug shows a mask, and the header value is marked as sensitive.
#[derive(Clone)]
pub struct Token(HeaderValue);

/// A text that is no token. The error does not hold the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the token is not valid; allowed: {TOKEN_RULE}")]
pub struct TokenError;

impl Token {
    /// A new token, from the system's random numbers.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        let mut text = String::with_capacity(2 * RANDOM_BYTES);
        for byte in bytes {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.parse().map_err(std::io::Error::other)
    }

    /// The token itself, for the file that it is kept in.
    pub fn expose(&self) -> &str {
        let value = self.0.to_str().unwrap_or_default();
        value.strip_prefix(SCHEME).unwrap_or_default()
    }

    /// The value of the `authorization` header.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    /// Takes what [`TOKEN_RULE`] says. White space at the end is ignored, so that the text of a file
    /// with a line end is a token.
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim_end();
        if !(16..=512).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(TokenError);
        }
        let mut value =
            HeaderValue::from_str(&format!("{SCHEME}{text}")).map_err(|_| TokenError)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(********)")
    }
}

/// Admits calls of this process and calls over a Unix socket. A call over TCP needs the token.
///
/// The mode of a Unix socket's file says who may connect, so a token would add nothing there.
#[derive(Clone)]
pub struct RequireToken {
    digest: [u8; 32],
    source: String,
}

impl RequireToken {
    /// The reason of an error: the call has no token.
    pub const MISSING: &'static str = "TOKEN_MISSING";
    /// The reason of an error: the call has another token.
    pub const WRONG: &'static str = "TOKEN_WRONG";

    /// Admits calls with `token`. `source` follows a semicolon in the error, and says where the
    /// token is and which setting gives it to a client.
    pub fn new(token: &Token, source: impl Into<String>) -> Self {
        Self {
            digest: digest(token.expose()),
            source: source.into(),
        }
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), RpcError> {
        let refused = |reason, problem: &str| {
            let message = format!("{problem}; {}", self.source);
            Err(RpcError::new(ErrorKind::Unauthenticated, message).reason(reason))
        };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            let problem = "the call has no token in its authorization metadata (Bearer TOKEN)";
            return refused(Self::MISSING, problem);
        };
        // The digests have one length, so the comparison tells nothing of the token's.
        let given = bearer(value).map(digest);
        let is_token = given.is_some_and(|given| bool::from(given.ct_eq(&self.digest)));
        if !is_token || values.next().is_some() {
            return refused(Self::WRONG, "the call has a wrong token");
        }
        Ok(())
    }
}

#[async_trait]
impl Authenticate for RequireToken {
    async fn authenticate(&self, request: &Parts) -> Result<Principal, RpcError> {
        // A call without a peer is nobody's: it is not taken for one of this process.
        match request.extensions.get().and_then(Peer::principal) {
            Some(principal) => Ok(principal),
            None => self.check(&request.headers).map(|()| Principal::token()),
        }
    }
}

impl fmt::Debug for RequireToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequireToken({})", self.source)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The token in an `authorization` header. Names of schemes have no case.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME.trim_end());
    is_bearer.then(|| token.trim_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const TEXT: &str = "canary-0123456789";

    async fn decide(peer: Option<Peer>, authorization: &[&str]) -> Result<Principal, RpcError> {
        let mut request = http::Request::new(());
        for value in authorization {
            let value = value.parse().unwrap();
            request.headers_mut().append(AUTHORIZATION, value);
        }
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let required = RequireToken::new(&TEXT.parse().unwrap(), "it is in FILE");
        required.authenticate(&request.into_parts().0).await
    }

    fn tcp() -> Option<Peer> {
        Some(Peer::Tcp(SocketAddr::from(([127, 0, 0, 1], 9))))
    }

    #[tokio::test]
    async fn only_calls_over_tcp_need_the_token() {
        for (peer, principal) in [
            (Peer::Local, Principal::process()),
            (Peer::Unix { uid: 7 }, Principal::socket(7)),
        ] {
            assert_eq!(decide(Some(peer), &[]).await.unwrap(), principal);
        }
        for peer in [tcp(), None] {
            let error = decide(peer.clone(), &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthenticated);
            assert_eq!(error.reason_name(), RequireToken::MISSING);
            assert!(error.message().ends_with("; it is in FILE"), "{error}");
            let right = format!("Bearer {TEXT}");
            for right in [right, format!("bearer  {TEXT}")] {
                let principal = decide(peer.clone(), &[&right]).await.unwrap();
                assert_eq!(principal, Principal::token());
            }
        }
    }

    #[tokio::test]
    async fn another_token_is_refused_and_not_repeated() {
        let right = format!("Bearer {TEXT}");
        let cut = &right[..right.len() - 1];
        let basic = format!("Basic {TEXT}");
        let longer = format!("{right}0");
        for given in [
            &["Bearer canary-wrong-0123456789"][..],
            &[cut],
            &[&longer],
            &[TEXT],
            &[&basic],
            &["Bearer"],
            &["Bearer "],
            &["\u{e4}"],
            &[&right, &right],
            &["Bearer canary-wrong-0123456789", &right],
        ] {
            let error = decide(tcp(), given).await.unwrap_err();
            assert_eq!(error.reason_name(), RequireToken::WRONG, "{given:?}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_token_is_random_and_never_shown() {
        let (one, two) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.expose().len(), 2 * RANDOM_BYTES);
        assert_ne!(one.expose(), two.expose());
        let token: Token = format!("{TEXT}\n").parse().unwrap();
        assert_eq!(token.expose(), TEXT);
        let required = RequireToken::new(&token, "it is in FILE");
        let shown = format!("{token:?}{:?}{required:?}", token.header());
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let long = "x".repeat(513);
        for text in ["", "short", "fifteen-letters", "0123456789 abcdef", &long] {
            assert!(text.parse::<Token>().is_err(), "{text:?}");
        }
        for text in ["0123456789\nabcdef", "0123456789\u{e4}bcdef"] {
            assert!(text.parse::<Token>().is_err(), "{text:?}");
        }
    }
}
