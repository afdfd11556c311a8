//! Answers `save_knowledge`: saves a page.
//!
//! The id of the page and the name of the change follow from the key of the call. The answer may be lost, and the next
//! owner saves the page again: it finds its page, and there is one.

use super::answers::persist;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::knowledge::{NewPage, errors};
use cairn_engine::decide::SaveKnowledge;

/// Saves a page of a call with this key, again and again while the store may take it.
///
/// # Errors
/// Why it is not saved, in words for the model.
pub(super) async fn save(
    deps: &Deps,
    key: &SessionKey,
    page: &SaveKnowledge,
    call_key: &str,
) -> Result<String, String> {
    // 64 bits of the key: models and people copy the id.
    let short = call_key.get(..16).unwrap_or(call_key);
    let id = format!("call-{short}");
    let put = || {
        let page = NewPage {
            id: id.clone(),
            title: page.title.clone(),
            text: page.text.clone(),
            tags: page.tags.clone(),
            operation_id: call_key.to_owned(),
            // A person may have changed the page since it was saved.
            expected_version: Some(0),
        };
        deps.knowledge.put(&deps.store, &key.namespace, page)
    };
    match persist(put).await {
        // There is a page of the id, and only this call gives it.
        Err(error) if error.reason_name() != errors::MISMATCH => {
            tracing::warn!(session = %key, %error, "page not saved");
            Err(format!("the page is not saved: {}", error.message()))
        }
        Ok(_) | Err(_) => Ok(format!("Saved as page {id}.")),
    }
}
