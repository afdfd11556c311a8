//! What the beginning of a picture says of it. No picture is decoded.

/// A picture of a type that models read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Its type, which its bytes decide and not the name that a tool gives it.
    pub(crate) mime: &'static str,
    /// In pixels.
    pub(crate) width: u32,
    /// In pixels.
    pub(crate) height: u32,
}

/// What a PNG begins with.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

impl Picture {
    /// Reads the beginning of a PNG, JPEG, GIF or WebP. None for other data, and if the size is not there.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let (mime, size) = match data {
            _ if data.starts_with(PNG) => ("image/png", png(data)),
            [0xFF, 0xD8, ..] => ("image/jpeg", jpeg(data)),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => ("image/gif", gif(data)),
            [b'R', b'I', b'F', b'F', _, _, _, _, rest @ ..] => ("image/webp", webp(rest)),
            _ => return None,
        };
        let (width, height) = size?;
        Some(Self {
            mime,
            width,
            height,
        })
    }
}

type Size = Option<(u32, u32)>;

/// The first chunk of a PNG has it.
fn png(data: &[u8]) -> Size {
    let rest = data.get(PNG.len() + 4..)?.strip_prefix(b"IHDR")?;
    let (width, rest) = rest.split_first_chunk()?;
    let (height, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height)))
}

fn gif(data: &[u8]) -> Size {
    Some((le_16(data, 6)?, le_16(data, 8)?))
}

/// The frame header of a JPEG has it, behind segments of other kinds.
fn jpeg(data: &[u8]) -> Size {
    let mut rest = data.get(2..)?;
    loop {
        let [0xFF, marker, after @ ..] = rest else {
            return None;
        };
        rest = match marker {
            // A filling byte, and markers without a segment.
            0xFF => rest.get(1..)?,
            0x01 | 0xD0..=0xD8 => after,
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return Some((be_16(after, 5)?, be_16(after, 3)?));
            }
            _ => after.get(be_16(after, 0)? as usize..)?,
        };
    }
}

/// `rest` begins behind the length of the file.
fn webp(rest: &[u8]) -> Size {
    let rest = rest.strip_prefix(b"WEBP")?;
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    let chunk = rest.get(4..)?;
    match kind {
        b"VP8 " => {
            let size = chunk.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?;
            Some((le_16(size, 0)? & 0x3FFF, le_16(size, 2)? & 0x3FFF))
        }
        b"VP8L" => {
            let (bits, _) = chunk.strip_prefix(b"\x2f")?.split_first_chunk()?;
            let bits = u32::from_le_bytes(*bits);
            Some(((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1))
        }
        b"VP8X" => {
            let high = |at: usize| chunk.get(at).copied().map(u32::from);
            let width = le_16(chunk, 4)? | (high(6)? << 16);
            let height = le_16(chunk, 7)? | (high(9)? << 16);
            Some((width + 1, height + 1))
        }
        _ => None,
    }
}

fn le_16(data: &[u8], at: usize) -> Option<u32> {
    let (bytes, _) = data.get(at..)?.split_first_chunk()?;
    Some(u16::from_le_bytes(*bytes).into())
}

fn be_16(data: &[u8], at: usize) -> Option<u32> {
    let (bytes, _) = data.get(at..)?.split_first_chunk()?;
    Some(u16::from_be_bytes(*bytes).into())
}

/// Pictures for tests: their beginnings.
#[cfg(test)]
pub(crate) mod samples {
    use super::PNG;

    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let (width, height) = (width.to_be_bytes(), height.to_be_bytes());
        [PNG, b"\0\0\0\rIHDR", &width, &height, b"\x08\x06\0\0\0"].concat()
    }

    pub(crate) fn gif(width: u16, height: u16) -> Vec<u8> {
        [
            b"GIF89a".as_slice(),
            &width.to_le_bytes(),
            &height.to_le_bytes(),
        ]
        .concat()
    }

    /// With a segment before the frame header, and a filling byte.
    pub(crate) fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let before = b"\xff\xd8\xff\xe0\x00\x04\xff\xc0\xff\xff\xc2\x00\x11\x08".as_slice();
        [before, &height.to_be_bytes(), &width.to_be_bytes(), b"\x03"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webp(kind: &[u8; 4], chunk: &[u8]) -> Vec<u8> {
        [b"RIFF\x40\0\0\0WEBP".as_slice(), kind, b"\x20\0\0\0", chunk].concat()
    }

    /// A picture of 800 × 600 of each kind.
    fn pictures() -> [(&'static str, Vec<u8>); 6] {
        let lossless = ((599_u32 << 14) | 799).to_le_bytes();
        let lossless = [b"\x2f".as_slice(), &lossless].concat();
        [
            ("image/png", samples::png(800, 600)),
            ("image/gif", samples::gif(800, 600)),
            ("image/jpeg", samples::jpeg(800, 600)),
            (
                "image/webp",
                webp(b"VP8 ", b"\x30\x01\0\x9d\x01\x2a\x20\x03\x58\x02"),
            ),
            ("image/webp", webp(b"VP8L", &lossless)),
            (
                "image/webp",
                webp(b"VP8X", b"\x10\0\0\0\x1f\x03\0\x57\x02\0"),
            ),
        ]
    }

    #[test]
    fn the_size_of_each_kind_is_read_from_its_beginning() {
        for (mime, data) in pictures() {
            let expected = Picture {
                mime,
                width: 800,
                height: 600,
            };
            assert_eq!(Picture::read(&data), Some(expected));
        }
    }

    #[test]
    fn what_is_cut_or_no_picture_has_no_size() {
        for (mime, data) in pictures() {
            for end in 0..data.len() {
                let part = Picture::read(&data[..end]);
                // What stands behind the size is not looked at.
                assert!(
                    part.is_none() || part == Picture::read(&data),
                    "{mime} {end}"
                );
            }
            assert_eq!(Picture::read(&data[..9]), None, "{mime}");
        }
        for other in [
            b"".as_slice(),
            b"%PDF-1.7",
            b"\xff\xd8\xff\xe0\x00\x00\xff\xff",
            b"\xff\xd8\xff\xda\x00\x02\x01\x02",
            b"RIFF\0\0\0\0WAVEfmt \0\0\0\0",
        ] {
            assert_eq!(Picture::read(other), None, "{other:?}");
        }
    }
}
