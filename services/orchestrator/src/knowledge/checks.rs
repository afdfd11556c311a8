//! What pages and searches may have.

use super::NewPage;
use cairn_engine::limits::{
    MAX_PAGE_QUERY, MAX_PAGE_TAG, MAX_PAGE_TAGS, MAX_PAGE_TEXT, MAX_PAGE_TITLE, is_page_line,
};
use cairn_rpc::{RpcError, check_request_id, check_required_text, check_text};

/// # Errors
/// The first field of the page that is wrong.
pub(super) fn check(page: &NewPage) -> Result<(), RpcError> {
    check_request_id("id", &page.id)?;
    check_line("title", &page.title, MAX_PAGE_TITLE)?;
    check_required_text("text", &page.text, MAX_PAGE_TEXT)?;
    check_tags(&page.tags)
}

/// # Errors
/// The first field of a search that is wrong.
pub(crate) fn check_query(query: &str, tags: &[String]) -> Result<(), RpcError> {
    if query.is_empty() {
        return Err(RpcError::missing("query").allowed(format!("1 to {MAX_PAGE_QUERY} bytes")));
    }
    check_text("query", query, MAX_PAGE_QUERY)?;
    check_tags(tags)
}

/// Tags as they are stored: in their order, each once.
pub(crate) fn sorted(mut tags: Vec<String>) -> Vec<String> {
    tags.sort_unstable();
    tags.dedup();
    tags
}

fn check_tags(tags: &[String]) -> Result<(), RpcError> {
    if tags.len() > MAX_PAGE_TAGS {
        let error = RpcError::invalid("tags", format!("has {} items", tags.len()));
        return Err(error.allowed(format!("at most {MAX_PAGE_TAGS} tags")));
    }
    for (index, tag) in tags.iter().enumerate() {
        check_line(&format!("tags[{index}]"), tag, MAX_PAGE_TAG)?;
    }
    Ok(())
}

fn check_line(field: &str, text: &str, most: usize) -> Result<(), RpcError> {
    check_required_text(field, text, most)?;
    match is_page_line(text, most) {
        true => Ok(()),
        false => {
            let error = RpcError::invalid(field, "has a line break or a control character");
            Err(error.allowed(format!("1 to {most} bytes in one line")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> NewPage {
        NewPage {
            id: "keys".to_owned(),
            title: "Keys".to_owned(),
            text: "Rotate them.".to_owned(),
            tags: vec!["ops".to_owned()],
            operation_id: "op-1".to_owned(),
            expected_version: None,
        }
    }

    #[test]
    fn a_page_has_all_fields_within_their_limits() {
        check(&page()).unwrap();
        let long = NewPage {
            id: "x".repeat(128),
            title: "x".repeat(256),
            text: "x".repeat(200 * 1024),
            tags: vec!["x".repeat(64); 16],
            ..page()
        };
        check(&long).unwrap();
    }

    #[test]
    fn an_error_names_the_field_that_is_wrong() {
        type Change = fn(&mut NewPage);
        let wrong = |change: Change| {
            let mut page = page();
            change(&mut page);
            check(&page).unwrap_err()
        };
        let changes: [(Change, &str); 9] = [
            (|page| page.id = "a b".to_owned(), "id holds a character"),
            (|page| page.title = " ".to_owned(), "title is empty"),
            (
                |page| page.title = "a\nb".to_owned(),
                "title has a line break",
            ),
            (
                |page| page.title = "a\u{1b}b".to_owned(),
                "title has a line break or a control character (allowed: 1 to 256 bytes in one line)",
            ),
            (|page| page.title = "x".repeat(257), "title has 257 bytes"),
            (|page| page.text = "\n".to_owned(), "text is empty"),
            (
                |page| page.text = "x".repeat(200 * 1024 + 1),
                "text has 204801 bytes",
            ),
            (
                |page| page.tags = vec!["a".to_owned(); 17],
                "tags has 17 items (allowed: at most 16 tags)",
            ),
            (
                |page| page.tags.push("a\u{2028}b".to_owned()),
                "tags[1] has a line break or a control character (allowed: 1 to 64 bytes in one line)",
            ),
        ];
        for (change, fault) in changes {
            let error = wrong(change).to_string();
            assert!(error.starts_with(fault), "{fault}: {error}");
        }
    }

    #[test]
    fn a_query_may_be_blank_and_not_empty() {
        check_query(" ", &[]).unwrap();
        let long = "x".repeat(4097);
        for (query, tag) in [("", "a"), ("a\0b", "a"), (long.as_str(), "a"), ("a", "")] {
            let error = check_query(query, &[tag.to_owned()]).unwrap_err();
            let field = if tag.is_empty() { "tags[0]" } else { "query" };
            assert_eq!(error.violations()[0].field, field, "{error}");
        }
    }

    #[test]
    fn tags_are_stored_in_their_order_and_once() {
        let tags = ["b", "a", "b"].map(str::to_owned).to_vec();
        assert_eq!(sorted(tags), ["a", "b"]);
    }
}
