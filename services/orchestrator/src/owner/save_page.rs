//! Answers `save_knowledge`: saves a page.
//!
//! The id of the page and the name of the change follow from the key of the call. The answer may be lost, and the next
//! owner saves the page again: it finds its page, and there is one.

use super::answers::PAUSE;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::knowledge::NewPage;
use crate::store::may_pass;
use cairn_engine::decide::SaveKnowledge;
use cairn_rpc::RpcError;
use tokio::time::sleep;

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
    let id = format!("call-{call_key}");
    loop {
        let page = NewPage {
            id: id.clone(),
            title: page.title.clone(),
            text: page.text.clone(),
            tags: page.tags.clone(),
            operation_id: call_key.to_owned(),
            // A person may have changed the page since it was saved.
            expected_version: Some(0),
        };
        match deps.knowledge.put(&deps.store, &key.namespace, page).await {
            Err(error) if may_pass(&error) => sleep(PAUSE).await,
            Err(error) if !exists(&error) => {
                tracing::warn!(session = %key, %error, "page not saved");
                return Err(format!("the page is not saved: {}", error.message()));
            }
            Ok(_) | Err(_) => return Ok(format!("Saved as page {id}.")),
        }
    }
}

/// There is a page of the id. Only this call gives it.
fn exists(error: &RpcError) -> bool {
    let is_version = matches!(error.reason_name(), "VERSION_MISMATCH" | "DOCUMENT_VERSION");
    is_version && error.metadata("version").is_some_and(|it| it != "0")
}
