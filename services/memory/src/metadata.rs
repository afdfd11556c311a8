//! The metadata of an entry of session memory, as stores keep it.

use crate::port::Metadata;

/// A JSON object; `None` without metadata.
pub(crate) fn to_text(metadata: &Metadata) -> Option<String> {
    let is_some = !metadata.is_empty();
    is_some.then(|| serde_json::json!(metadata).to_string())
}

/// The way back.
///
/// # Errors
/// [`to_text`] made no such text.
pub(crate) fn of_text(text: Option<&str>) -> serde_json::Result<Metadata> {
    match text {
        Some(text) => serde_json::from_str(text),
        None => Ok(Metadata::new()),
    }
}

/// The bytes that count for the limits of session memory: those of names and texts.
pub(crate) fn bytes(metadata: &Metadata) -> usize {
    let entries = metadata.iter();
    entries.map(|(name, text)| name.len() + text.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_metadata_is_the_same_after_its_way_there_and_back() {
        let strange = [("a\0b".to_owned(), "\"\n\u{1f680}".to_owned())];
        for (metadata, size) in [(Metadata::new(), 0), (strange.into(), 9)] {
            let text = to_text(&metadata);
            assert_eq!(text.is_some(), size > 0);
            assert_eq!(bytes(&metadata), size);
            assert_eq!(of_text(text.as_deref()).unwrap(), metadata);
        }
        assert!(of_text(Some("{\"a\": 1}")).is_err());
    }
}
