//! The token that the calls of a link carry.

use crate::address::Address;
use crate::token::Token;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tonic::{Code, Status};

/// Finds the token of a listener, for the links to it.
pub trait FindToken: fmt::Debug + Send + Sync + 'static {
    /// The token for the process at an address. Without one, calls go without.
    ///
    /// A link asks before its first call, and again before the call after one that was refused: the
    /// process at the address may start later than the link, and make its token then. The answer may
    /// come from a small file; it must not wait for anything else.
    fn find(&self, address: &Address) -> Option<Token>;
}

impl FindToken for Token {
    /// The same for every address: for services that share one token.
    fn find(&self, _: &Address) -> Option<Token> {
        Some(self.clone())
    }
}

/// The token for one address.
#[derive(Debug)]
pub(super) struct Bearer {
    address: Address,
    tokens: Arc<dyn FindToken>,
    found: RwLock<Option<HeaderValue>>,
}

impl Bearer {
    pub(super) fn new(address: &Address, tokens: &Arc<dyn FindToken>) -> Arc<Self> {
        Arc::new(Self {
            address: address.clone(),
            tokens: Arc::clone(tokens),
            found: RwLock::default(),
        })
    }

    /// Puts the token into a request, in place of what the caller has put there.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        match self.known().or_else(|| self.find()) {
            Some(token) => headers.insert(AUTHORIZATION, token),
            None => headers.remove(AUTHORIZATION),
        };
    }

    /// The next call looks for the token again.
    pub(super) fn forget(&self) {
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn known(&self) -> Option<HeaderValue> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        found.clone()
    }

    fn find(&self) -> Option<HeaderValue> {
        let token = self.tokens.find(&self.address)?.header();
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        Some(found.insert(token).clone())
    }

    /// Forgets the token if an answer says that it is not the right one.
    pub(super) fn note_answer(&self, headers: &HeaderMap) {
        let code = headers.get(Status::GRPC_STATUS);
        let code = code.map(|code| Code::from_bytes(code.as_bytes()));
        if code == Some(Code::Unauthenticated) {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The file of a process that starts later than the link, and once more with another token.
    #[derive(Debug)]
    struct Late(Mutex<Vec<Option<&'static str>>>);

    impl FindToken for Late {
        fn find(&self, _: &Address) -> Option<Token> {
            let text = self.0.lock().unwrap().pop().unwrap()?;
            Some(text.parse().unwrap())
        }
    }

    #[test]
    fn a_token_is_looked_for_until_it_is_there_and_again_after_a_refusal() {
        let (one, two) = ("1111111111111111", "2222222222222222");
        let later = Late(Mutex::new(vec![Some(two), Some(one), None]));
        let tokens: Arc<dyn FindToken> = Arc::new(later);
        let bearer = Bearer::new(&"http://127.0.0.1:1".parse().unwrap(), &tokens);
        let sent = || {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, "Bearer the caller's".parse().unwrap());
            bearer.put(&mut headers);
            let value = headers.get(AUTHORIZATION)?;
            Some(value.to_str().unwrap().to_owned())
        };
        assert_eq!(sent(), None);
        assert_eq!(sent(), Some(format!("Bearer {one}")));
        assert_eq!(sent(), Some(format!("Bearer {one}")));
        let mut answer = HeaderMap::new();
        bearer.note_answer(&answer);
        assert_eq!(sent(), Some(format!("Bearer {one}")));
        answer.insert(Status::GRPC_STATUS, "16".parse().unwrap());
        bearer.note_answer(&answer);
        assert_eq!(sent(), Some(format!("Bearer {two}")));
    }
}
