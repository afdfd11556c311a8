//! Valid requests of the service for pages of knowledge.

use cairn_proto::api as pb;
use prost::Message;

/// As [`super::valid::public`], for a page that is stored first.
pub(crate) fn knowledge(method: &str, n: usize) -> Vec<Vec<u8>> {
    let request_id = format!("{method}-{n}");
    let id = "keys".to_owned();
    let tags = vec!["ops".to_owned(), "security".to_owned()];
    let bytes = match method {
        "PutPage" => pb::PutPageRequest {
            request_id,
            id: Some(id),
            title: "Keys".to_owned(),
            text: "Rotate the keys of the gateway each month.\n".to_owned(),
            tags,
            expected_version: None,
        }
        .encode_to_vec(),
        "GetPage" => pb::GetPageRequest { id }.encode_to_vec(),
        "ListPages" => pb::ListPagesRequest {
            page_size: 1,
            page_token: String::new(),
        }
        .encode_to_vec(),
        "DeletePage" => pb::DeletePageRequest {
            request_id,
            id,
            expected_version: None,
        }
        .encode_to_vec(),
        "SearchPages" => pb::SearchPagesRequest {
            query: "rotate keys".to_owned(),
            tags,
            max: 3,
            min_score: Some(0.1),
        }
        .encode_to_vec(),
        _ => return Vec::new(),
    };
    vec![bytes]
}
