//! Model servers over HTTP: what the providers that speak to one share.
//!
//! A provider brings its `Dialect`: how a request is written, and how an answer and the pieces of
//! a stream are read into a `Draft`. All else is here: settings and their check, sending, faults,
//! reading streams, ids of calls, usage and cost.

mod config;
pub(crate) mod conversation;
pub(crate) mod draft;
pub(crate) mod end;
pub(crate) mod extra;
pub(crate) mod fault;
mod first_bytes;
pub(crate) mod lenient;
mod lines;
pub(crate) mod offer;
pub(crate) mod omitted;
pub(crate) mod reply;
pub(crate) mod schema;
mod stream;

pub use config::ServerConfig;
pub use omitted::OptionalField;

use crate::clean::Cleaner;
use crate::prices::PriceBook;
use crate::stream::{collect, reply_events};
use crate::{ChatReply, ChatRequest, ModelError, ModelInfo, StreamEvent};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_http::{HttpClient, HttpConfig, HttpError, HttpResponse, build_client};
use config::Endpoint;
use draft::Draft;
use first_bytes::Kind;
use futures::stream::BoxStream;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use offer::{Offer, Offers};
use omitted::Omitted;
use reply::Asked;
use schema::SchemaForm;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Once};

/// What tells one provider's protocol from another's.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The provider's name, for people and for prices.
    pub(crate) provider: &'static str,
    /// The host whose prices are known.
    pub(crate) own_host: &'static str,
    /// Where questions go, below the base URL.
    pub(crate) path: &'static str,
    /// What its servers require of the schemas of tools.
    pub(crate) schemas: SchemaForm,
    /// The headers that carry a key.
    pub(crate) key_header: fn(&str) -> (&'static str, String),
    /// Reads a whole answer.
    pub(crate) whole: fn(&[u8], &Cleaner) -> Result<Draft, ModelError>,
    /// Reads the data of one event of a stream.
    pub(crate) piece: fn(&mut Draft, &str, &Cleaner) -> Result<Piece, ModelError>,
}

/// What an event of a stream brought; the draft has it already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More text to show; possibly none.
    Text(String),
    /// The server says that nothing follows.
    End,
}

impl Piece {
    pub(crate) const NOTHING: Self = Self::Text(String::new());
}

/// What a whole answer, or one event of a stream, has beside the reply: usage and names.
const AROUND_REPLY: u64 = 256 * 1024;
/// Bytes that may travel in JSON for one byte of a reply: an escaped character takes twice its
/// bytes, but for control characters.
const BYTES_IN_JSON: u64 = 2;
/// Bytes that may travel in a stream for one byte of a reply: a token of four bytes may come in an
/// event of 1 KiB. They are not in memory at once.
const BYTES_IN_STREAM: u64 = 256;
/// What a stream has beside the reply: signs of life, and pieces with nothing in them.
const AROUND_STREAM: u64 = 16 * 1024 * 1024;

/// Encodes a request, without these fields.
pub(crate) type Encode<'a> = &'a (dyn Fn(Omitted) -> Result<Vec<u8>, ModelError> + Sync);

/// A server, ready to be asked.
#[derive(Debug)]
pub(crate) struct Server {
    /// For whole replies: limited in all, for a model may think long before the first byte.
    whole: HttpClient,
    /// For streams: limited in silence too.
    streaming: HttpClient,
    url: String,
    headers: HeaderMap,
    max_output_tokens: Option<u32>,
    parallel_tool_calls: Option<bool>,
    /// The bits of the fields that it is not sent: those of the settings, and those that it refused.
    omitted: AtomicU8,
    /// The bits of the temperature that it refused last; not a number before that.
    refused_temperature: AtomicU32,
    offers: Offers,
    dialect: &'static Dialect,
    provider: Arc<Provider>,
    /// Done once it has been said that no price is known.
    price_reported: Once,
}

/// What a reply needs to know of its provider after the request is gone.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) info: ModelInfo,
    pub(crate) cleaner: Cleaner,
    /// Most bytes of a reply.
    pub(crate) max_reply_bytes: u64,
}

impl Provider {
    /// Refuses a reply of so many bytes if that is too much.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), ModelError> {
        let limit = self.max_reply_bytes;
        match bytes as u64 > limit {
            true => Err(ModelError::TooLarge { limit }),
            false => Ok(()),
        }
    }

    /// Most bytes of a whole answer, or of one event of a stream: so much is in memory at once.
    fn max_json_bytes(&self) -> u64 {
        let reply = self.max_reply_bytes.saturating_mul(BYTES_IN_JSON);
        reply.saturating_add(AROUND_REPLY)
    }

    /// An error of the way here. What travels is limited for the sake of the reply, so the limit
    /// that the error names is the reply's.
    fn error(&self, error: HttpError) -> ModelError {
        match error {
            HttpError::TooLarge { .. } => ModelError::TooLarge {
                limit: self.max_reply_bytes,
            },
            other => other.into(),
        }
    }
}

impl Server {
    /// Checks the configuration and builds the clients; connects to nothing yet.
    pub(crate) fn new(config: ServerConfig, dialect: &'static Dialect) -> Result<Self, Failure> {
        let Endpoint {
            url,
            host,
            headers,
            cleaner,
        } = config.check(dialect)?;
        let own = host == dialect.own_host;
        let known = || PriceBook::built_in().find(dialect.provider, &config.model);
        let prices = config.prices.or_else(|| own.then(known).flatten());
        let sees = || PriceBook::built_in().vision(dialect.provider, &config.model);
        let vision = config.vision.or_else(|| own.then(sees).flatten());
        let in_stream = config.max_reply_bytes.saturating_mul(BYTES_IN_STREAM);
        let limits = HttpConfig {
            connect_timeout: config.connect_timeout,
            total_timeout: Some(config.total_timeout),
            max_response_bytes: in_stream.saturating_add(AROUND_STREAM),
            proxies: config.proxies,
            ..HttpConfig::default()
        };
        Ok(Self {
            whole: client(&limits)?,
            streaming: client(&HttpConfig {
                first_byte_timeout: Some(config.first_byte_timeout),
                idle_timeout: Some(config.idle_timeout),
                ..limits
            })?,
            url,
            headers,
            max_output_tokens: config.max_output_tokens,
            parallel_tool_calls: config.parallel_tool_calls,
            omitted: AtomicU8::new(Omitted::of(&config.omit).bits()),
            refused_temperature: AtomicU32::new(f32::NAN.to_bits()),
            offers: Offers::new(dialect.schemas),
            dialect,
            provider: Arc::new(Provider {
                info: ModelInfo {
                    provider: dialect.provider.to_owned(),
                    name: config.model,
                    window_tokens: config.window_tokens,
                    vision: vision.unwrap_or(false),
                    prices,
                },
                cleaner,
                max_reply_bytes: config.max_reply_bytes,
            }),
            price_reported: Once::new(),
        })
    }

    pub(crate) fn info(&self) -> &ModelInfo {
        &self.provider.info
    }

    /// Adds a header that is no secret.
    pub(crate) fn set_header(&mut self, name: &'static str, value: &'static str) {
        let value = HeaderValue::from_static(value);
        self.headers.entry(name).or_insert(value);
    }

    /// The most tokens that a reply to this request may have, if anybody said.
    pub(crate) fn max_output_tokens(&self, request: &ChatRequest) -> Option<u32> {
        let most = self.max_output_tokens.unwrap_or(u32::MAX);
        let asked = request.options.max_output_tokens;
        asked.map_or(self.max_output_tokens, |asked| Some(asked.min(most)))
    }

    /// Whether a reply that may call these tools may ask for several calls, if the request is to say it.
    pub(crate) fn parallel_tool_calls(&self, offer: &Offer, omitted: Omitted) -> Option<bool> {
        let is_sent = !offer.tools.is_empty() && !omitted.has(OptionalField::ParallelToolCalls);
        self.parallel_tool_calls.filter(|_| is_sent)
    }

    /// The fields that it is not sent.
    pub(crate) fn omitted(&self) -> Omitted {
        Omitted::from_bits(self.omitted.load(Ordering::Relaxed))
    }

    /// The fields that it is not sent in a request with this temperature.
    fn omitted_at(&self, temperature: Option<f32>) -> Omitted {
        let refused = self.refused_temperature.load(Ordering::Relaxed);
        match temperature.map(f32::to_bits) == Some(refused) {
            true => self.omitted().with(OptionalField::Temperature),
            false => self.omitted(),
        }
    }

    /// The tools of a request as they are sent.
    pub(crate) fn offer(&self, request: &ChatRequest) -> Offer {
        self.offers.of(&request.tools)
    }

    /// Asks for a whole reply.
    pub(crate) async fn chat(
        &self,
        request: &ChatRequest,
        encode: Encode<'_>,
    ) -> Result<ChatReply, ModelError> {
        let sent = self.send(request, encode, false).await;
        let mut response = sent.map_err(|error| self.offer(request).explain(error))?;
        let asked = Asked::of(request);
        let begun = first_bytes::read(&mut response).await;
        let (_, head) = begun.map_err(|error| self.provider.error(error))?;
        // Some servers stream unasked.
        if first_bytes::is_field(&head) {
            let provider = Arc::clone(&self.provider);
            let events = stream::events(head, response, asked, self.dialect, provider).await?;
            return collect(events, |_| {}).await;
        }
        self.whole_reply(head, response, &asked).await
    }

    /// Asks for a stream. Returns once the first piece of the reply is there, so that an error
    /// which comes as the first event is an error of this call.
    pub(crate) async fn chat_stream(
        &self,
        request: &ChatRequest,
        encode: Encode<'_>,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let sent = self.send(request, encode, true).await;
        let mut response = sent.map_err(|error| self.offer(request).explain(error))?;
        let asked = Asked::of(request);
        let begun = first_bytes::read(&mut response).await;
        let (kind, head) = begun.map_err(|error| self.provider.error(error))?;
        match kind {
            // Some servers do not stream; and some are no such servers.
            Kind::Whole => {
                let reply = self.whole_reply(head, response, &asked).await?;
                Ok(Box::pin(futures::stream::iter(reply_events(reply))))
            }
            Kind::Events => {
                let provider = Arc::clone(&self.provider);
                stream::events(head, response, asked, self.dialect, provider).await
            }
        }
    }

    /// Sends a request and returns its answer if the status is good. A request whose optional field the
    /// server refuses is sent again without it.
    async fn send(
        &self,
        request: &ChatRequest,
        encode: Encode<'_>,
        stream: bool,
    ) -> Result<HttpResponse, ModelError> {
        self.tell_price();
        let temperature = request.options.temperature;
        let mut omitted = self.omitted_at(temperature);
        loop {
            let error = match self.post(encode(omitted)?, stream).await {
                Ok(response) => {
                    self.remember(omitted, temperature);
                    return Ok(response);
                }
                Err(error) => error,
            };
            let fewer = omitted.with_refused(&error);
            match fewer {
                // The request may not have the field that is named.
                Some(fewer) if encode(fewer)? != encode(omitted)? => omitted = fewer,
                _ => return Err(error),
            }
        }
    }

    /// Leaves out of later requests what this one did well without.
    fn remember(&self, omitted: Omitted, temperature: Option<f32>) {
        let before = self.omitted_at(temperature);
        let new = Omitted::from_bits(omitted.bits() & !before.bits());
        if new.bits() == 0 {
            return;
        }
        if let Some(refused) = temperature.filter(|_| new.has(OptionalField::Temperature)) {
            let bits = refused.to_bits();
            self.refused_temperature.store(bits, Ordering::Relaxed);
        }
        let others = new.without(OptionalField::Temperature);
        self.omitted.fetch_or(others.bits(), Ordering::Relaxed);
        tracing::warn!(
            model = self.provider.info.name,
            fields = new.names(),
            "the server refuses these fields, so they are no longer sent"
        );
    }

    async fn post(&self, body: Vec<u8>, stream: bool) -> Result<HttpResponse, ModelError> {
        let client = if stream { &self.streaming } else { &self.whole };
        let mut post = client
            .post(&self.url)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body);
        if stream {
            // A compressing proxy would hold pieces back.
            post = post.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let response = client.send(post).await?;
        tracing::debug!(
            model = self.provider.info.name,
            status = response.status().as_u16(),
            elapsed = ?response.elapsed(),
            "model answered"
        );
        if response.status() == http::StatusCode::OK {
            Ok(response)
        } else {
            Err(fault::of_response(response, &self.provider.cleaner).await)
        }
    }

    /// Says, once, that a cost of 0 does not mean that the model is free.
    fn tell_price(&self) {
        let info = &self.provider.info;
        if info.prices.is_none() {
            self.price_reported.call_once(|| {
                tracing::warn!(
                    model = info.name,
                    list = PriceBook::built_in().as_of(),
                    "no price is known for this model, so its cost counts as 0; set its prices, \
                     or give a newer list of prices"
                );
            });
        }
    }

    /// Reads a whole answer of which the first bytes are there.
    async fn whole_reply(
        &self,
        head: Vec<u8>,
        response: HttpResponse,
        asked: &Asked,
    ) -> Result<ChatReply, ModelError> {
        let limit = self.provider.max_json_bytes();
        let mut response = response.with_limit(limit);
        let mut body = head;
        loop {
            let chunk = response.chunk().await;
            match chunk.map_err(|error| self.provider.error(error))? {
                Some(chunk) => body.extend_from_slice(&chunk),
                None => break,
            }
        }
        // The first bytes were read under the limit on streams.
        if body.len() as u64 > limit {
            return Err(self.provider.error(HttpError::TooLarge { limit }));
        }
        fault::refuse_other_than_json(&body, &self.provider.cleaner)?;
        let json = first_bytes::json_of(&body);
        (self.dialect.whole)(json, &self.provider.cleaner)?.finish(asked, &self.provider)
    }
}

fn client(limits: &HttpConfig) -> Result<HttpClient, Failure> {
    build_client(limits)
        .map_err(|error| Failure::new(FailureKind::Config, "http_client", error.with_causes()))
}

/// A schema as JSON. It was checked when the turn was submitted; one that is none allows anything.
pub(crate) fn schema_of(schema: &str) -> serde_json::Value {
    serde_json::from_str(schema).unwrap_or_else(|_| serde_json::json!({}))
}

/// The body of a request as JSON. It is written twice, because a body that grows takes three times its bytes
/// for a moment.
pub(crate) fn to_body(request: &impl serde::Serialize) -> Result<Vec<u8>, ModelError> {
    let refused = |error: serde_json::Error| ModelError::BadRequest {
        message: error.to_string(),
    };
    let mut length = Length(0);
    serde_json::to_writer(&mut length, request).map_err(refused)?;
    let mut body = Vec::with_capacity(length.0);
    serde_json::to_writer(&mut body, request).map_err(refused)?;
    Ok(body)
}

/// Counts what is written.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads JSON of the server.
///
/// # Errors
/// [`ModelError::Stream`] if it was spoiled or cut on its way, so that it is no JSON any more;
/// [`ModelError::BadAnswer`] if it is whole and says something else than the protocol.
pub(crate) fn from_json<'a, T: serde::Deserialize<'a>>(
    json: &'a [u8],
    cleaner: &Cleaner,
) -> Result<T, ModelError> {
    serde_json::from_slice(json).map_err(|error| fault::of_json(&error, json, cleaner))
}
