//! Lists of documents in pages: their size, and page tokens, which are positions of the store as texts.

use cairn_proto::memory::DocumentPosition;
use cairn_rpc::{RpcError, check_request_id};

/// Most documents of a page.
pub(super) const MAX_PAGE: u32 = 1000;

/// # Errors
/// A page of more documents.
pub(super) fn check_size(page_size: u32) -> Result<(), RpcError> {
    if page_size > MAX_PAGE {
        let error = RpcError::invalid("page_size", format!("is {page_size}"));
        return Err(error.allowed(format!("0 to {MAX_PAGE}")));
    }
    Ok(())
}

/// The token of the page after a position.
pub(super) fn token(position: &DocumentPosition) -> String {
    let DocumentPosition {
        incarnation,
        counter,
        since,
    } = position;
    format!("{counter}.{since}.{incarnation}")
}

/// The position after which a page begins; none for the first page.
///
/// # Errors
/// A text that is no token.
pub(super) fn position(token: &str) -> Result<Option<DocumentPosition>, RpcError> {
    if token.is_empty() {
        return Ok(None);
    }
    parse(token).map(Some).ok_or_else(wrong)
}

/// The error for a text that is no token of a list.
pub(super) fn wrong() -> RpcError {
    let error = RpcError::invalid("page_token", "is no token of a page");
    error.allowed("next_page_token of the page before")
}

fn parse(token: &str) -> Option<DocumentPosition> {
    let (counter, rest) = token.split_once('.')?;
    let (since, incarnation) = rest.split_once('.')?;
    // The store refuses any other, and knows no page token to name.
    check_request_id("page_token", incarnation).ok()?;
    Some(DocumentPosition {
        incarnation: incarnation.to_owned(),
        counter: counter.parse().ok()?,
        since: since.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_position_and_nothing_else_is_one() {
        let there = DocumentPosition {
            incarnation: "7.1-a".to_owned(),
            counter: 42,
            since: 40,
        };
        let text = token(&there);
        assert_eq!(position(&text).unwrap(), Some(there));
        assert_eq!(position("").unwrap(), None);
        for wrong in ["x", "1", "1.2", "1.2.", "1.x.a", "-1.2.a", "1.2.a b"] {
            let error = position(wrong).unwrap_err();
            assert_eq!(error.violations()[0].field, "page_token", "{wrong}");
        }
    }
}
