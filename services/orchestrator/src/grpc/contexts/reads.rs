//! What contexts hold: pages of messages, counts, and lines.

use super::super::bounded::respond;
use super::super::{Answer, key_of};
use super::{ContextRequest, check_name, lines};
use crate::key::SessionKey;
use crate::readers::{Part, Share};
use crate::requests::Requests;
use cairn_engine::conversation::Entry;
use cairn_engine::key::{digest, hex};
use cairn_engine::message::{Message, Role};
use cairn_engine::session::{Context, Session};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use futures::stream::{self, BoxStream, StreamExt as _};
use prost::Message as _;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Most messages of a page.
const MAX_PAGE: u32 = 200;
/// A page with so many bytes of messages takes no further message.
const PAGE_BYTES: u64 = 1024 * 1024;
/// Most bytes of a part of an export.
const PART_BYTES: usize = 256 * 1024;

pub(super) type Exported = BoxStream<'static, Result<pb::ExportContextResponse, Status>>;

/// A session as a request about one of its contexts finds it.
pub(super) struct Viewed {
    key: SessionKey,
    session: Arc<Session>,
    /// About how many bytes the session has.
    bytes: usize,
    /// The name of a context that is there.
    name: String,
}

impl Viewed {
    pub(super) async fn of<R: ContextRequest>(
        requests: &Requests,
        request: &Request<R>,
    ) -> Result<Self, RpcError> {
        let key = key_of(request, request.get_ref().session())?;
        let context = request.get_ref().context();
        check_name("context", context)?;
        let viewed = requests.store().view(&key).await?;
        let (session, bytes) = (viewed.session, viewed.bytes);
        let name = session.context_name(context).to_owned();
        session.known_context(&name).map_err(unknown)?;
        Ok(Self {
            key,
            session,
            bytes,
            name,
        })
    }

    /// About how many bytes the session has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn context(&self) -> Result<&Context, RpcError> {
        self.session.known_context(&self.name).map_err(unknown)
    }

    /// Names one list of messages for its page tokens: of which context it is, and what it selects.
    fn list(&self, what: &str) -> String {
        let named = [&*self.key.id, &self.name, what];
        short_digest(&named.map(str::as_bytes))
    }
}

/// The error for a context that is not there.
pub(super) fn unknown(message: String) -> RpcError {
    RpcError::new(ErrorKind::NotFound, message).reason("CONTEXT_NOT_FOUND")
}

pub(super) async fn list(
    requests: &Requests,
    request: Request<pb::ListContextsRequest>,
) -> Answer<pb::ListContextsResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let session = requests.store().view(&key).await?.session;
    let contexts = session.contexts.iter();
    let contexts = contexts.map(|(name, context)| pb::ContextSummary {
        name: name.clone(),
        version: context.version,
        is_active: *name == session.active_context,
        system_prompt: context.prompt.clone(),
        window: window(context.conversation.window),
        messages: count(context.len()),
        bytes: context.bytes,
        turns: context.turns,
        when_full: wire::WhenFull::from(context.when_full).into(),
        agent: context.agent.clone().map(Into::into),
        agent_window: window(context.conversation.agent_window),
    });
    Ok(Response::new(pb::ListContextsResponse {
        contexts: contexts.collect(),
    }))
}

fn window(messages: Option<u32>) -> Option<wire::Window> {
    messages.map(|messages| wire::Window { messages })
}

pub(super) fn message(
    viewed: &Viewed,
    asked: &pb::GetMessageRequest,
) -> Result<pb::GetMessageResponse, RpcError> {
    let context = viewed.context()?;
    let message = context.messages().nth(asked.index as usize);
    Ok(pb::GetMessageResponse {
        message: message.cloned().map(Into::into),
        version: context.version,
    })
}

pub(super) fn counts(viewed: &Viewed) -> Result<pb::CountMessagesResponse, RpcError> {
    let context = viewed.context()?;
    let zones = &context.conversation;
    Ok(pb::CountMessagesResponse {
        messages: count(context.len()),
        immutable: count(zones.immutable.len()),
        compressed: count(zones.compressed.len()),
        incremental: count(zones.incremental.len()),
        is_empty: context.is_empty(),
        version: context.version,
    })
}

pub(super) fn messages(
    viewed: &Viewed,
    asked: &pb::ListMessagesRequest,
) -> Result<pb::ListMessagesResponse, RpcError> {
    use pb::Zone;
    let context = viewed.context()?;
    let zone = Zone::try_from(asked.zone)
        .map_err(|_| RpcError::invalid("zone", format!("is {}", asked.zone)).allowed("0 to 3"))?;
    let zones = &context.conversation;
    let compressed_at = zones.immutable.len();
    let incremental_at = compressed_at + zones.compressed.len();
    let end = context.len();
    let listed = match (asked.in_window, zone) {
        (true, Zone::Unspecified | Zone::Incremental) => end - zones.in_window().len()..end,
        (true, _) => {
            let error = RpcError::invalid("zone", "has no window");
            return Err(error.allowed("ZONE_INCREMENTAL, or none, with in_window"));
        }
        (false, Zone::Unspecified) => 0..end,
        (false, Zone::Immutable) => 0..compressed_at,
        (false, Zone::Compressed) => compressed_at..incremental_at,
        (false, Zone::Incremental) => incremental_at..end,
    };
    let is_listed = |index: usize, _: &Message| listed.contains(&index);
    let list = viewed.list(&format!("list {} {}", asked.zone, asked.in_window));
    let (messages, next_page_token) = page(
        context,
        &list,
        asked.page_size,
        &asked.page_token,
        is_listed,
    )?;
    Ok(pb::ListMessagesResponse {
        messages,
        next_page_token,
        version: context.version,
    })
}

pub(super) fn of_role(
    viewed: &Viewed,
    asked: &pb::FindMessagesRequest,
    role: Role,
) -> Result<pb::FindMessagesResponse, RpcError> {
    let context = viewed.context()?;
    let is_of_it = |_: usize, message: &Message| message.role == role;
    let list = viewed.list(&format!("find {role:?}"));
    let (messages, next_page_token) =
        page(context, &list, asked.page_size, &asked.page_token, is_of_it)?;
    Ok(pb::FindMessagesResponse {
        messages,
        version: context.version,
        next_page_token,
    })
}

/// The messages as [`Context::messages`] has them, each with whether it stands for older ones.
fn entries(context: &Context) -> impl Iterator<Item = &Entry> {
    let zones = &context.conversation;
    let stable = zones.immutable.iter().chain(&zones.compressed);
    stable.chain(&zones.incremental)
}

/// The messages of a page that a predicate on index and message selects, and the token of the next page.
///
/// A token names the index to continue from, the version that was read, the list, and the message before
/// the index: pages of different versions would repeat or miss messages, and versions are counted anew
/// in a context that is created under the name of one that was destroyed.
fn page(
    context: &Context,
    list: &str,
    size: u32,
    token: &str,
    is_listed: impl Fn(usize, &Message) -> bool,
) -> Result<(Vec<pb::IndexedMessage>, String), RpcError> {
    let size = match size {
        0 => MAX_PAGE,
        1..=MAX_PAGE => size,
        _ => {
            let error = RpcError::invalid("page_size", format!("is {size}"));
            return Err(error.allowed(format!("0 to {MAX_PAGE}")));
        }
    };
    let from = match token {
        "" => 0,
        token => continued(token, context, list)?,
    };
    let (mut messages, mut bytes) = (Vec::new(), 0);
    let all = entries(context).enumerate().skip(from);
    for (index, entry) in all.filter(|(index, entry)| is_listed(*index, &entry.message)) {
        let message = &*entry.message;
        let is_full = messages.len() == size as usize
            || (!messages.is_empty() && bytes + message.bytes() > PAGE_BYTES);
        if is_full {
            return Ok((messages, page_token(context, list, index)));
        }
        bytes += message.bytes();
        messages.push(pb::IndexedMessage {
            index: count(index),
            message: Some(message.clone().into()),
            compaction: wire::CompactionKind::from(entry.compaction).into(),
        });
    }
    Ok((messages, String::new()))
}

fn page_token(context: &Context, list: &str, index: usize) -> String {
    let before = index
        .checked_sub(1)
        .and_then(|it| context.messages().nth(it));
    let before = before.map(|it| wire::Message::from(it.clone()).encode_to_vec());
    let (length, bytes) = (context.len() as u64, context.bytes);
    let read = short_digest(&[
        &length.to_be_bytes(),
        &bytes.to_be_bytes(),
        &before.unwrap_or_default(),
    ]);
    format!("{index}.{}.{list}.{read}", context.version)
}

fn short_digest(of: &[&[u8]]) -> String {
    hex(&digest(of)[..6])
}

fn continued(token: &str, context: &Context, list: &str) -> Result<usize, RpcError> {
    let invalid = |problem: &str| {
        let error = RpcError::invalid("page_token", problem);
        error.allowed("next_page_token of the page before, with the same request")
    };
    let fields: Vec<_> = token.split('.').collect();
    let [index, version, of_list, _] = fields[..] else {
        return Err(invalid("is no token of a page"));
    };
    let numbers = (index.parse::<usize>(), version.parse::<u64>());
    let (Ok(index), Ok(version)) = numbers else {
        return Err(invalid("is no token of a page"));
    };
    if of_list != list {
        return Err(invalid("is of another context, or of another list"));
    }
    if version != context.version {
        let message = format!(
            "the pages are of version {version} of the context, which has version {} now; begin with \
             the first page",
            context.version
        );
        return Err(RpcError::precondition(message).reason("VERSION_MISMATCH"));
    }
    match token == page_token(context, list, index) {
        true => Ok(index),
        false => Err(invalid("is of a context of this name that is destroyed")),
    }
}

/// An estimate cannot fail here; the contract allows it to.
pub(super) fn tokens(viewed: &Viewed) -> Result<pb::EstimateTokensResponse, RpcError> {
    let messages = viewed.context()?.messages();
    let tokens =
        messages.map(|message| cairn_model::tokens::estimate_tokens(std::slice::from_ref(message)));
    Ok(pb::EstimateTokensResponse {
        tokens: tokens.sum(),
    })
}

/// The lines of all messages, as they are now, in parts that fit into a message. The share counts the
/// session, which the stream holds to its end.
pub(super) fn export(viewed: Viewed, share: Share) -> Response<Exported> {
    let lines = stream::unfold(
        (viewed, share.clone(), 0),
        |(viewed, share, next)| async move {
            let line = match viewed.context() {
                Ok(context) => lines::line(context.messages().nth(next)?),
                Err(error) => Err(error),
            };
            share.set(Part::Page, line.as_ref().map_or(0, String::len));
            Some((line, (viewed, share, next + 1)))
        },
    );
    let parts = lines.flat_map(|line| match line {
        Ok(line) => stream::iter(parts(&line)).left_stream(),
        Err(error) => stream::iter([Err(error.into())]).right_stream(),
    });
    respond(share, parts.boxed(), 0, |_| 0)
}

fn parts(line: &str) -> Vec<Result<pb::ExportContextResponse, Status>> {
    let (mut parts, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        rest = after;
        parts.push(Ok(pb::ExportContextResponse {
            jsonl: part.to_owned(),
        }));
    }
    parts
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
