//! Counting without asking: tokens of messages.
//!
//! No provider is asked and no vocabulary is loaded, so the same messages have the same estimate in every
//! process. It is of a common model; what a provider reports corrects it for one model.

mod text;

use crate::message::{Media, Message, Notice, Part};
use crate::picture::Picture;
use std::borrow::Borrow;

pub use text::of_text;

/// What a message costs beside its text: role and separators.
pub const PER_MESSAGE: u64 = 4;
/// What a tool call or an offered tool costs beside its texts.
pub const PER_CALL: u64 = 8;
/// What a picture costs at most, whatever its size: providers scale a larger one down to about this. So much
/// costs a picture whose size cannot be read, and the first page of a document.
pub const PER_IMAGE: u64 = 1_600;

/// What the line costs that stands for a file which no model reads.
const PER_LEFT_OUT: u64 = 30;
/// Pixels of a token, as Anthropic counts.
const PIXELS: u64 = 750;
/// What a picture costs in all and for each of its tiles, as OpenAI counts.
const PER_TILED: u64 = 85;
const PER_TILE: u64 = 170;
/// Pixels of a side of a tile, of the shorter side of a picture in tiles, and of its longer one.
const TILE: u64 = 512;
const SHORTER_SIDE: u64 = 768;
const LONGER_SIDE: u64 = 2_048;
/// Bytes of a document for each token, beyond the first page: 3,000 tokens for a page of 48 KB.
const DOCUMENT_BYTES: u64 = 16;
/// Bytes of a token in what only its provider can read.
const OPAQUE_BYTES: u64 = 4;

/// Tokens that these messages would take in a common model. Pictures and documents are counted as for a model
/// that sees: an owner does not know which model will be asked.
pub fn estimate_tokens<M: Borrow<Message>>(messages: &[M]) -> u64 {
    let messages = messages.iter().map(<M as Borrow<Message>>::borrow);
    messages.map(of_message).sum()
}

/// The same for one message.
pub fn of_message(message: &Message) -> u64 {
    PER_MESSAGE + message.parts.iter().map(of_part).sum::<u64>()
}

/// The same for a model that does not see: a line stands for each picture and document.
pub fn of_message_unseen(message: &Message) -> u64 {
    let media = message.parts.iter().filter_map(|part| match part {
        Part::Media(media) => Some(of_media(media).saturating_sub(PER_LEFT_OUT)),
        _ => None,
    });
    of_message(message).saturating_sub(media.sum())
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) | Part::Notice(Notice { text, .. }) => of_text(text),
        Part::Call(call) => PER_CALL + of_text(&call.name) + of_text(&call.arguments),
        Part::Result(result) => of_text(&result.text),
        Part::Media(media) => of_media(media),
        // Most of it is a signature, which is not counted as text.
        Part::Opaque(opaque) => (opaque.json.len() as u64).div_ceil(OPAQUE_BYTES),
    }
}

fn of_media(media: &Media) -> u64 {
    let bytes = media.data.len() as u64;
    match media.mime.as_str() {
        mime if mime.starts_with("image/") => match Picture::read(&media.data) {
            Some(picture) => of_picture(picture.width.into(), picture.height.into()),
            None => PER_IMAGE,
        },
        "application/pdf" => PER_IMAGE.max(bytes.div_ceil(DOCUMENT_BYTES)),
        _ => PER_LEFT_OUT,
    }
}

/// What a picture of so many pixels costs where it costs most.
fn of_picture(width: u64, height: u64) -> u64 {
    let by_area = (width * height).div_ceil(PIXELS);
    let (mut shorter, mut longer) = (width.min(height), width.max(height));
    if longer > LONGER_SIDE {
        (shorter, longer) = (shorter * LONGER_SIDE / longer, LONGER_SIDE);
    }
    if shorter > SHORTER_SIDE {
        (shorter, longer) = (SHORTER_SIDE, longer * SHORTER_SIDE / shorter);
    }
    let tiles = shorter.div_ceil(TILE) * longer.div_ceil(TILE);
    by_area.max(PER_TILED + PER_TILE * tiles).min(PER_IMAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Opaque, Role, ToolCall};
    use crate::picture::samples;

    fn media(mime: &str, data: Vec<u8>) -> Part {
        Part::Media(Media {
            mime: mime.to_owned(),
            data,
        })
    }

    #[test]
    fn each_part_of_a_message_counts() {
        let call = ToolCall {
            id: "c".into(),
            name: "read".into(),
            arguments: "{\"a\":1}".into(),
        };
        let opaque = Opaque {
            provider: "p".into(),
            model: "m".into(),
            kind: "thinking".into(),
            json: "{\"a\":10}".into(),
        };
        let notice = Notice {
            text: "one two four".into(),
            is_of_workspace: true,
        };
        let in_call = of_text("read") + of_text("{\"a\":1}");
        let parts = [
            (Part::Text("one two four".into()), 3),
            (Part::Call(call), PER_CALL + in_call),
            (Part::Opaque(opaque), 2),
            (Part::Notice(notice), 3),
            (media("image/png", vec![0; 9]), PER_IMAGE),
            (media("application/pdf", vec![0; 9]), PER_IMAGE),
            (media("application/pdf", vec![0; 1 << 20]), 1 << 16),
            (media("application/zip", vec![0; 1 << 20]), PER_LEFT_OUT),
        ];
        let message = Message {
            role: Role::Assistant,
            parts: parts.iter().map(|(part, _)| part.clone()).collect(),
        };
        let tokens: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
        assert_eq!(of_message(&message), PER_MESSAGE + tokens);
        let seen = 2 * PER_IMAGE + (1 << 16) - 3 * PER_LEFT_OUT;
        assert_eq!(of_message_unseen(&message), PER_MESSAGE + tokens - seen);
        let result = Message::tool("c", "one two four", false);
        assert_eq!(of_message(&result), PER_MESSAGE + 3);
        let all = [message, result];
        assert_eq!(
            estimate_tokens(&all),
            of_message(&all[0]) + of_message(&all[1])
        );
    }

    #[test]
    fn a_picture_counts_by_its_size_and_no_more_than_a_large_one() {
        for (width, height, tokens) in [
            // An icon is one tile.
            (16, 16, 255),
            (512, 512, 350),
            // Four tiles, and more by its area.
            (1_000, 1_000, 1_334),
            // A long strip is scaled to 2048 × 102: four tiles.
            (4_000, 200, 1_067),
            (20_000, 10, 765),
            (8_000, 8_000, PER_IMAGE),
            (65_535, 65_535, PER_IMAGE),
        ] {
            assert_eq!(of_picture(width, height), tokens, "{width} × {height}");
        }
        let Part::Media(png) = media("image/png", samples::png(16, 16)) else {
            panic!("media");
        };
        assert_eq!(of_media(&png), 255);
    }
}
