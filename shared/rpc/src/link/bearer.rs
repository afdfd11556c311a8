//! The token that the calls of a link carry.

use super::Link;
use crate::address::Address;
use crate::error::RpcError;
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
    /// A link asks before its first call, and again when a call was refused: the process at the
    /// address may start later than the link, and make its token then. If the token is another one
    /// by then, the link sends the refused call once more. The answer may come from a small file; it
    /// must not wait for anything else.
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

    /// Puts the token into a request, in place of what the caller has put there. Returns the token.
    pub(super) fn put(&self, headers: &mut HeaderMap) -> Option<HeaderValue> {
        let token = self.known().or_else(|| self.find());
        match &token {
            Some(token) => headers.insert(AUTHORIZATION, token.clone()),
            None => headers.remove(AUTHORIZATION),
        };
        token
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

    /// Whether an answer refuses the token that was sent, so that the call did not begin. A token
    /// that is not the right one is forgotten.
    pub(super) fn is_refused(&self, sent: Option<&HeaderValue>, answer: &HeaderMap) -> bool {
        let code = answer.get(Status::GRPC_STATUS);
        let code = code.map(|code| Code::from_bytes(code.as_bytes()));
        if code != Some(Code::Unauthenticated) {
            return false;
        }
        // Another call may have found the next one meanwhile.
        if self.known().as_ref() == sent {
            self.forget();
        }
        let status = Status::from_header_map(answer);
        status.is_some_and(|status| Link::did_not_begin(&RpcError::from_status(&status)))
    }

    /// The token of this moment, if it is another one than that which was refused. One that a person
    /// gave stays the same.
    pub(super) fn other_than(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let token = self.known().or_else(|| self.find());
        token.filter(|token| Some(token) != refused)
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
        let refused = HeaderValue::from_static("Bearer 1111111111111111");
        assert!(!bearer.is_refused(Some(&refused), &answer));
        assert_eq!(sent(), Some(format!("Bearer {one}")));
        answer.insert(Status::GRPC_STATUS, "16".parse().unwrap());
        // An authenticator of others: the call may have begun.
        assert!(!bearer.is_refused(Some(&refused), &answer));
        assert_eq!(sent(), Some(format!("Bearer {two}")));
        // A late answer to a call with the first token.
        bearer.is_refused(Some(&refused), &answer);
        assert_eq!(sent(), Some(format!("Bearer {two}")));
    }
}
