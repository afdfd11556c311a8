//! Results within their limits.

use crate::text;
use crate::tool::Output;

/// Most bytes of media that a result carries.
const MEDIA_LIMIT: usize = 4 << 20;

/// Media beyond the limit of a result are left out, and the text says so.
pub(super) fn limited(mut output: Output, limit: usize) -> Output {
    let mut room = MEDIA_LIMIT;
    let before = output.media.len();
    output.media.retain(|media| {
        let fits = media.data.len() <= room;
        room = room.saturating_sub(media.data.len());
        fits
    });
    let mut text = text::cut(output.text, limit);
    if output.media.len() < before {
        let left = before - output.media.len();
        text.push_str(&format!(
            "\n[left out: {left} of {before} media, as a result has at most {MEDIA_LIMIT} bytes of them]"
        ));
    }
    Output {
        text,
        media: output.media,
    }
}
