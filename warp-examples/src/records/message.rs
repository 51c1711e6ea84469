//! Protocol buffers, written by hand: the few kinds of fields that event files need.
//!
//! A field whose value is the default (0, an empty text) is left out, as the format has it; a part
//! of a `oneof` is always written.

/// A message in the making.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// An `int32`, `int64` or `enum` that is not negative.
    pub(super) fn int(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.key(field, 0);
            self.varint(value);
        }
        self
    }

    /// A `bool` of a `oneof`.
    pub(super) fn boolean(mut self, field: u32, value: bool) -> Self {
        self.key(field, 0);
        self.0.push(u8::from(value));
        self
    }

    /// A `float` of a `oneof`.
    pub(super) fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A `double`.
    pub(super) fn double(mut self, field: u32, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A packed `repeated double`.
    pub(super) fn doubles(self, field: u32, values: &[f64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.data(field, &bytes)
    }

    /// `bytes`.
    pub(super) fn data(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A `string`.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.data(field, text.as_bytes())
    }

    /// A message within the message.
    pub(super) fn message(self, field: u32, inner: &Message) -> Self {
        self.data(field, &inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_format_says() {
        // The example of the format's own documentation: field 1 is 150.
        assert_eq!(Message::new().int(1, 150).bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, "testing").bytes(), b"\x12\x07testing");
        assert!(Message::new().int(1, 0).bytes().is_empty());
        let inner = Message::new().int(1, 150);
        assert_eq!(Message::new().message(3, &inner).bytes(), [0x1a, 3, 8, 0x96, 1]);
    }
}
