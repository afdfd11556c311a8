//! Which pictures and files of a result its model gets.
//!
//! A provider refuses a request for one picture that it does not take, and with it each later request of the
//! conversation. So a model gets only what all providers take, and a line in the result for everything else.

use super::{Decision, words};
use crate::event::{CallFinished, CallMedia};
use crate::limits::{MAX_MEDIA, MAX_MEDIA_COUNT, MAX_MEDIA_SIDE, MAX_WITH_MEDIA};
use crate::message::{Message, Part};
use crate::picture::Picture;
use crate::session::Call;

/// What a PDF begins with.
const PDF: &[u8] = b"%PDF-";

/// Why a model does not get a picture or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// No model takes the type.
    Type,
    /// Its bytes are not of the type.
    Unreadable,
    /// It has too many bytes.
    Size,
    /// A picture has too many pixels, in width and height.
    Pixels(u32, u32),
    /// The conversation has as many as there may be.
    Count,
    /// The conversation is too long for it.
    Room,
}

/// What a conversation has before a picture or a file is added.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    count: usize,
    bytes: u64,
}

impl Taken {
    fn add(&mut self, message: &Message) {
        let is_media = |part: &&Part| matches!(part, Part::Media(_));
        self.count += message.parts.iter().filter(is_media).count();
        self.bytes = self.bytes.saturating_add(message.bytes());
    }
}

impl Decision<'_> {
    /// Marks what the model gets. The output says of all else that it was left out. A tool step has no model.
    pub(super) fn with_shown_media(&self, mut result: CallFinished) -> CallFinished {
        let attempt = result.call.attempt;
        if result.media.is_empty() || self.is_tool_step(attempt) {
            return result;
        }
        let mut taken = Taken::default();
        if let Some(conversation) = self.session.conversation_of(attempt) {
            let zones = [
                conversation.immutable.as_slice(),
                &conversation.compressed,
                conversation.in_window(),
                &conversation.behind,
            ];
            for entry in zones.into_iter().flatten() {
                taken.add(&entry.message);
            }
        }
        let running = self.session.attempt(attempt).into_iter();
        let calls = running.flat_map(|running| &running.calls);
        for message in calls.filter_map(Call::result) {
            taken.add(&message);
        }
        for media in &mut result.media {
            let why = unfit(media).or_else(|| too_much(media, taken));
            media.is_shown = why.is_none();
            match why {
                Some(why) => {
                    let line = words::left_out(media, why);
                    result.output.push_str(&line);
                }
                None => {
                    taken.count += 1;
                    taken.bytes = taken.bytes.saturating_add(media.data.len() as u64);
                }
            }
        }
        result
    }
}

/// Why no model takes it, if none does.
fn unfit(media: &CallMedia) -> Option<LeftOut> {
    match media.mime_type.as_str() {
        "application/pdf" if !media.data.starts_with(PDF) => return Some(LeftOut::Unreadable),
        "application/pdf" => {}
        mime @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp") => {
            let picture = Picture::read(&media.data).filter(|picture| picture.mime == mime);
            let Some(Picture { width, height, .. }) = picture else {
                return Some(LeftOut::Unreadable);
            };
            let sides = 1..=MAX_MEDIA_SIDE;
            if !sides.contains(&width) || !sides.contains(&height) {
                return Some(LeftOut::Pixels(width, height));
            }
        }
        _ => return Some(LeftOut::Type),
    }
    (media.data.len() > MAX_MEDIA).then_some(LeftOut::Size)
}

/// Why there is no place for it, if there is none.
fn too_much(media: &CallMedia, taken: Taken) -> Option<LeftOut> {
    if taken.count >= MAX_MEDIA_COUNT {
        return Some(LeftOut::Count);
    }
    let bytes = taken.bytes.saturating_add(media.data.len() as u64);
    (bytes > MAX_WITH_MEDIA).then_some(LeftOut::Room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::samples;

    fn media(mime_type: &str, data: Vec<u8>) -> CallMedia {
        CallMedia {
            mime_type: mime_type.to_owned(),
            name: String::new(),
            data,
            is_shown: false,
        }
    }

    #[test]
    fn a_model_gets_what_all_providers_take() {
        let png = |bytes: usize| {
            let mut data = samples::png(800, 600);
            data.resize(bytes, 0);
            data
        };
        let pdf = |bytes: usize| {
            let mut data = b"%PDF-1.7".to_vec();
            data.resize(bytes, 0);
            data
        };
        for (mime, data, expected) in [
            ("image/png", png(100), None),
            ("image/png", png(MAX_MEDIA), None),
            ("image/png", png(MAX_MEDIA + 1), Some(LeftOut::Size)),
            ("image/png", png(20), Some(LeftOut::Unreadable)),
            ("image/png", Vec::new(), Some(LeftOut::Unreadable)),
            ("image/jpeg", png(100), Some(LeftOut::Unreadable)),
            ("image/jpeg", samples::jpeg(8_000, 1), None),
            (
                "image/jpeg",
                samples::jpeg(8_001, 1),
                Some(LeftOut::Pixels(8_001, 1)),
            ),
            ("image/gif", samples::gif(0, 7), Some(LeftOut::Pixels(0, 7))),
            ("image/svg+xml", b"<svg/>".to_vec(), Some(LeftOut::Type)),
            ("audio/wav", Vec::new(), Some(LeftOut::Type)),
            ("application/pdf", pdf(100), None),
            ("application/pdf", pdf(MAX_MEDIA + 1), Some(LeftOut::Size)),
            ("application/pdf", png(100), Some(LeftOut::Unreadable)),
        ] {
            let bytes = data.len();
            assert_eq!(unfit(&media(mime, data)), expected, "{mime} {bytes}");
        }
    }

    #[test]
    fn a_conversation_takes_so_many_and_so_many_bytes() {
        let media = media("image/png", vec![0; 1_000]);
        let full = MAX_WITH_MEDIA - 1_000;
        for (count, bytes, expected) in [
            (0, 0, None),
            (MAX_MEDIA_COUNT - 1, full, None),
            (MAX_MEDIA_COUNT, 0, Some(LeftOut::Count)),
            (0, full + 1, Some(LeftOut::Room)),
            (0, u64::MAX, Some(LeftOut::Room)),
        ] {
            let taken = Taken { count, bytes };
            assert_eq!(too_much(&media, taken), expected, "{taken:?}");
        }
    }
}
