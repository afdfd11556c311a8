//! `cairn.api.v1.KnowledgeService`: pages are documents of the caller's namespace.

use super::{Answer, Orchestrator, pages};
use crate::knowledge::{
    Found, NewPage, Search, check_query, content, document, errors, list_documents, sorted,
};
use crate::requests::Requests;
use crate::store::for_namespace;
use cairn_engine::key::{digest, hex};
use cairn_proto::api as pb;
use cairn_proto::api::knowledge_service_server::KnowledgeService;
use cairn_proto::memory as memory_pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{RpcError, check_request_id, principal};
use std::ops::RangeInclusive;
use tonic::{Request, Response};

/// Begins the tokens of this list, so that those of other lists are refused.
const LIST: &str = "pages.";
/// Most hits.
const MAX_HITS: u32 = 100;
/// Hits of a search that names no number.
const HITS: u32 = 5;
const SCORES: RangeInclusive<f64> = 0.0..=1.0;
/// Most bytes of an excerpt.
const EXCERPT: usize = 1024;

#[tonic::async_trait]
impl KnowledgeService for Orchestrator {
    async fn put_page(&self, request: Request<pb::PutPageRequest>) -> Answer<pb::PutPageResponse> {
        put(&self.requests, request).await
    }

    async fn get_page(&self, request: Request<pb::GetPageRequest>) -> Answer<pb::GetPageResponse> {
        get(&self.requests, request).await
    }

    async fn list_pages(
        &self,
        request: Request<pb::ListPagesRequest>,
    ) -> Answer<pb::ListPagesResponse> {
        list(&self.requests, request).await
    }

    async fn delete_page(
        &self,
        request: Request<pb::DeletePageRequest>,
    ) -> Answer<pb::DeletePageResponse> {
        delete(&self.requests, request).await
    }

    async fn search_pages(
        &self,
        request: Request<pb::SearchPagesRequest>,
    ) -> Answer<pb::SearchPagesResponse> {
        search(&self.requests, request).await
    }
}

async fn put(
    requests: &Requests,
    request: Request<pb::PutPageRequest>,
) -> Answer<pb::PutPageResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let page = NewPage {
        id: asked.id.unwrap_or_else(|| made_id(&asked.request_id)),
        title: asked.title,
        text: asked.text,
        tags: asked.tags,
        operation_id: operation_id(&asked.request_id),
        expected_version: asked.expected_version,
    };
    let stored = page.clone();
    let knowledge = &requests.deps().knowledge;
    let put = knowledge.put(requests.store(), &namespace, page);
    let version = Box::pin(put).await?;
    let page = pb::Page {
        id: stored.id,
        version,
        change_time: None,
        title: stored.title,
        text: stored.text,
        tags: sorted(stored.tags),
    };
    Ok(Response::new(pb::PutPageResponse { page: Some(page) }))
}

async fn get(
    requests: &Requests,
    request: Request<pb::GetPageRequest>,
) -> Answer<pb::GetPageResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let id = request.into_inner().id;
    check_request_id("id", &id)?;
    let found = Box::pin(document(requests.store(), &namespace, &id)).await?;
    let document = found.ok_or_else(|| errors::missing(&id))?;
    let stored = content(&document)?;
    let page = pb::Page {
        id: document.id,
        version: document.version,
        change_time: Some(timestamp(document.changed_unix_ms)),
        title: stored.title,
        text: stored.text,
        tags: stored.tags,
    };
    Ok(Response::new(pb::GetPageResponse { page: Some(page) }))
}

async fn list(
    requests: &Requests,
    request: Request<pb::ListPagesRequest>,
) -> Answer<pb::ListPagesResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    pages::check_size(asked.page_size)?;
    let after = position(&asked.page_token)?;
    let listed = list_documents(requests.store(), &namespace, after, asked.page_size);
    let listed = Box::pin(listed).await;
    let listed = listed.map_err(|status| errors::of_list(&status))?;
    let memory_pb::ListDocumentsResponse {
        documents,
        position,
        is_last,
    } = listed;
    let living = documents.iter().filter(|document| !document.deleted);
    let next = position.filter(|_| !is_last);
    let next = next.map(|next| format!("{LIST}{}", pages::token(&next)));
    Ok(Response::new(pb::ListPagesResponse {
        pages: living.map(summary).collect(),
        next_page_token: next.unwrap_or_default(),
    }))
}

/// The position after which an answer begins; none for the first answer.
///
/// # Errors
/// A text that is no token of this list.
fn position(token: &str) -> Result<Option<memory_pb::DocumentPosition>, RpcError> {
    let rest = token.strip_prefix(LIST).filter(|rest| !rest.is_empty());
    match rest {
        Some(rest) => pages::position(rest),
        None if token.is_empty() => Ok(None),
        None => Err(pages::wrong()),
    }
}

async fn delete(
    requests: &Requests,
    request: Request<pb::DeletePageRequest>,
) -> Answer<pb::DeletePageResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_request_id("id", &asked.id)?;
    let delete = memory_pb::DeleteDocumentRequest {
        kind: memory_pb::DocumentKind::Page.into(),
        id: asked.id.clone(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let deleted = documents
        .delete_document(for_namespace(&namespace, delete))
        .await;
    let deleted = deleted.map_err(|status| errors::of_deletion(&status, &asked.id))?;
    match deleted.into_inner().version {
        0 => Err(errors::missing(&asked.id).into()),
        _ => Ok(Response::new(pb::DeletePageResponse {})),
    }
}

async fn search(
    requests: &Requests,
    request: Request<pb::SearchPagesRequest>,
) -> Answer<pb::SearchPagesResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_query(&asked.query, &asked.tags)?;
    if asked.max > MAX_HITS {
        let error = RpcError::invalid("max", format!("is {}", asked.max));
        return Err(error.allowed(format!("0 to {MAX_HITS}")).into());
    }
    if let Some(score) = asked.min_score.filter(|score| !SCORES.contains(score)) {
        let error = RpcError::invalid("min_score", format!("is {score}"));
        return Err(error.allowed("0 to 1").into());
    }
    let max = match asked.max {
        0 => HITS,
        max => max,
    };
    let search = Search {
        query: asked.query,
        tags: asked.tags,
        max: max as usize,
        min_score: asked.min_score,
        excerpt_bytes: EXCERPT,
    };
    let knowledge = &requests.deps().knowledge;
    let found = knowledge.search(requests.store(), &namespace, &search);
    let found = Box::pin(found).await?;
    Ok(Response::new(pb::SearchPagesResponse {
        hits: found.into_iter().map(hit).collect(),
    }))
}

/// The store takes shorter ids than clients may choose.
fn operation_id(request_id: &str) -> String {
    hex(&digest(&[b"cairn.pages", request_id.as_bytes()]))
}

/// The id of a page whose client chose none. A retry has the same.
fn made_id(request_id: &str) -> String {
    let digest = digest(&[b"cairn.page", request_id.as_bytes()]);
    format!("page-{}", hex(&digest[..16]))
}

/// A page as lists show it. One that only another version can read has no title.
fn summary(document: &memory_pb::Document) -> pb::Page {
    let stored = content(document).unwrap_or_default();
    pb::Page {
        id: document.id.clone(),
        version: document.version,
        change_time: Some(timestamp(document.changed_unix_ms)),
        title: stored.title,
        text: String::new(),
        tags: stored.tags,
    }
}

fn hit(found: Found) -> pb::PageHit {
    let page = pb::Page {
        id: found.id,
        version: found.version,
        change_time: Some(timestamp(found.changed_unix_ms)),
        title: found.title,
        text: String::new(),
        tags: found.tags,
    };
    pb::PageHit {
        page: Some(page),
        score: found.score,
        excerpt: found.excerpt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_another_list_is_refused() {
        assert_eq!(position("").unwrap(), None);
        let there = position("pages.42.40.7.1-a").unwrap().expect("a position");
        assert_eq!((there.counter, there.incarnation.as_str()), (42, "7.1-a"));
        for wrong in ["42.40.7.1-a", "pages.", "pages.x", "page", "agents.42.40.a"] {
            let error = position(wrong).unwrap_err();
            assert_eq!(error.violations()[0].field, "page_token", "{wrong}");
        }
    }

    #[test]
    fn a_made_id_follows_from_the_request() {
        let id = made_id("request-1");
        assert_eq!(id, made_id("request-1"));
        assert_ne!(id, made_id("request-2"));
        assert_eq!(id.len(), "page-".len() + 32);
    }
}
