//! Which pictures and files of a result its model gets.
//!
//! A provider refuses a request for one picture that it does not take, and with it each later request of the
//! conversation. So a model gets only what all providers take, and a line in the result for everything else.

use super::{Decision, words};
use crate::event::{AttemptRef, CallFinished, CallMedia};
use crate::limits::{MAX_MEDIA, MAX_MEDIA_COUNT, MAX_MEDIA_SIDE, MAX_WITH_MEDIA};
use crate::message::{Message, Part};
use crate::picture::Picture;
use crate::session::Call;

/// What a PDF begins with.
const PDF: &[u8] = b"%PDF-";
/// The types of pictures that are read.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Why a model does not get a picture or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// No model takes the type.
    Type,
    /// Its content is of no type that models take.
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

    /// Whether there is a place for one more.
    fn admit(self, media: &CallMedia) -> Result<(), LeftOut> {
        if self.count >= MAX_MEDIA_COUNT {
            return Err(LeftOut::Count);
        }
        match self.bytes.saturating_add(media.data.len() as u64) > MAX_WITH_MEDIA {
            true => Err(LeftOut::Room),
            false => Ok(()),
        }
    }
}

impl Decision<'_> {
    /// Marks what the model gets. The output says of all else that it was left out. A tool step has no model.
    pub(super) fn with_shown_media(&self, mut result: CallFinished) -> CallFinished {
        for media in &mut result.media {
            media.is_shown = false;
        }
        let attempt = result.call.attempt;
        if result.media.is_empty() || self.is_tool_step(attempt) {
            return result;
        }
        let mut taken = self.taken(attempt);
        for media in &mut result.media {
            let fits = type_of(media).and_then(|mime| taken.admit(media).map(|()| mime));
            match fits {
                Ok(mime) => {
                    media.is_shown = true;
                    mime.clone_into(&mut media.mime_type);
                    taken.count += 1;
                    taken.bytes = taken.bytes.saturating_add(media.data.len() as u64);
                }
                Err(why) => result.output.push_str(&words::left_out(media, why)),
            }
        }
        result
    }

    fn taken(&self, attempt: AttemptRef) -> Taken {
        let mut taken = Taken::default();
        if let Some(conversation) = self.session.conversation_of(attempt) {
            let zones = [
                conversation.immutable.as_slice(),
                &conversation.compressed,
                conversation.sent_in_window(),
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
        taken
    }
}

/// The type of something that all providers take, by its content: tools name it wrongly at times, and a provider
/// refuses that.
fn type_of(media: &CallMedia) -> Result<&'static str, LeftOut> {
    let mime = match media.mime_type.as_str() {
        "application/pdf" if media.data.starts_with(PDF) => "application/pdf",
        "application/pdf" => return Err(LeftOut::Unreadable),
        mime if mime.starts_with("image/") => {
            let Some(picture) = Picture::read(&media.data) else {
                return Err(match PICTURES.contains(&mime) {
                    true => LeftOut::Unreadable,
                    false => LeftOut::Type,
                });
            };
            let (sides, Picture { width, height, .. }) = (1..=MAX_MEDIA_SIDE, picture);
            if !sides.contains(&width) || !sides.contains(&height) {
                return Err(LeftOut::Pixels(width, height));
            }
            picture.mime
        }
        _ => return Err(LeftOut::Type),
    };
    match media.data.len() > MAX_MEDIA {
        true => Err(LeftOut::Size),
        false => Ok(mime),
    }
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
        let cases = [
            ("image/png", png(100), Ok("image/png")),
            ("image/png", png(MAX_MEDIA), Ok("image/png")),
            ("image/png", png(MAX_MEDIA + 1), Err(LeftOut::Size)),
            ("image/png", png(20), Err(LeftOut::Unreadable)),
            ("image/png", Vec::new(), Err(LeftOut::Unreadable)),
            ("image/jpg", png(100), Ok("image/png")),
            ("image/jpeg", samples::jpeg(8_000, 1), Ok("image/jpeg")),
            (
                "image/jpeg",
                samples::jpeg(8_001, 1),
                Err(LeftOut::Pixels(8_001, 1)),
            ),
            ("image/gif", samples::gif(0, 7), Err(LeftOut::Pixels(0, 7))),
            ("image/svg+xml", b"<svg/>".to_vec(), Err(LeftOut::Type)),
            ("audio/wav", Vec::new(), Err(LeftOut::Type)),
            ("application/pdf", pdf(100), Ok("application/pdf")),
            ("application/pdf", pdf(MAX_MEDIA + 1), Err(LeftOut::Size)),
            ("application/pdf", png(100), Err(LeftOut::Unreadable)),
        ];
        for (mime, data, expected) in cases {
            let bytes = data.len();
            assert_eq!(type_of(&media(mime, data)), expected, "{mime} {bytes}");
        }
    }

    #[test]
    fn a_conversation_takes_so_many_and_so_many_bytes() {
        let media = media("image/png", vec![0; 1_000]);
        let full = MAX_WITH_MEDIA - 1_000;
        for (count, bytes, expected) in [
            (0, 0, Ok(())),
            (MAX_MEDIA_COUNT - 1, full, Ok(())),
            (MAX_MEDIA_COUNT, 0, Err(LeftOut::Count)),
            (0, full + 1, Err(LeftOut::Room)),
            (0, u64::MAX, Err(LeftOut::Room)),
        ] {
            let taken = Taken { count, bytes };
            assert_eq!(taken.admit(&media), expected, "{taken:?}");
        }
    }
}
