//! TensorBoard's events: what they are called and how they are put together.
//!
//! Field numbers are those of `event.proto`, `summary.proto`, `tensor.proto` and, for
//! hyper-parameters, `plugin_data.proto` of TensorBoard.

use super::message::Message;
use std::time::{SystemTime, UNIX_EPOCH};

/// `SummaryMetadata.DataClass.DATA_CLASS_TENSOR`.
const TENSOR: u64 = 2;
/// `DataType.DT_FLOAT` and `DT_STRING`.
const FLOAT: u64 = 1;
const STRING: u64 = 7;

/// Where and when something happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    /// Seconds since 1970. Event files may know the clock; checkpoints may not.
    pub(super) wall_time: f64,
    /// Environment steps done.
    pub(super) step: u64,
}

impl When {
    pub(super) fn now(step: u64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self { wall_time: since.map_or(0.0, |since| since.as_secs_f64()), step }
    }

    fn event(self) -> Message {
        Message::new().double(1, self.wall_time).int(2, self.step)
    }

    /// The first event of every file.
    pub(super) fn file_version(self) -> Message {
        self.event().text(3, "brain.Event:2")
    }

    /// A process begins here: what an earlier one wrote for this step and later ones counts no more.
    pub(super) fn session_start(self) -> Message {
        const START: u64 = 1;
        self.event().message(7, &Message::new().int(1, START))
    }

    /// Values that belong together.
    pub(super) fn summary(self, values: &[Message]) -> Message {
        let summary =
            values.iter().fold(Message::new(), |summary, value| summary.message(1, value));
        self.event().message(5, &summary)
    }
}

/// A number.
pub(super) fn scalar(tag: &str, value: f64) -> Message {
    Message::new().text(1, tag).float(2, value as f32)
}

/// How often each of some values occurred.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram {
    /// Left end of the first bucket.
    pub(super) min: f64,
    /// Right ends of the buckets.
    pub(super) limits: Vec<f64>,
    /// Values in each bucket.
    pub(super) counts: Vec<f64>,
    /// Sum of the values.
    pub(super) sum: f64,
    /// Sum of their squares.
    pub(super) sum_squares: f64,
}

impl Histogram {
    pub(super) fn value(&self, tag: &str) -> Message {
        let max = self.limits.last().copied().unwrap_or(self.min);
        let histogram = Message::new()
            .double(1, self.min)
            .double(2, max)
            .double(3, self.counts.iter().sum())
            .double(4, self.sum)
            .double(5, self.sum_squares)
            .doubles(6, &self.limits)
            .doubles(7, &self.counts);
        Message::new().text(1, tag).message(5, &histogram)
    }
}

fn metadata(plugin: &str, content: &[u8]) -> Message {
    let plugin = Message::new().text(1, plugin).data(2, content);
    Message::new().message(1, &plugin).int(4, TENSOR)
}

/// A text in Markdown.
pub(super) fn text(tag: &str, markdown: &str) -> Message {
    let tensor = Message::new().int(1, STRING).message(2, &Message::new()).text(8, markdown);
    Message::new().text(1, tag).message(9, &metadata("text", &[])).message(8, &tensor)
}

/// A hyper-parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parameter {
    Number(f64),
    Text(String),
    Switch(bool),
}

/// The hyper-parameters of the run, for the plugin of that name.
pub(super) fn hyper_parameters(parameters: &[(String, Parameter)], started: f64) -> Message {
    let mut session = Message::new();
    for (name, parameter) in parameters {
        let value = match parameter {
            Parameter::Number(number) => Message::new().double(2, *number),
            Parameter::Text(text) => Message::new().text(3, text),
            Parameter::Switch(on) => Message::new().boolean(4, *on),
        };
        session = session.message(1, &Message::new().text(1, name).message(2, &value));
    }
    plugin_value("_hparams_/session_start_info", 3, &session.double(5, started))
}

/// The run has ended as it should.
pub(super) fn session_end(ended: f64) -> Message {
    const SUCCESS: u64 = 1;
    let session = Message::new().int(1, SUCCESS).double(2, ended);
    plugin_value("_hparams_/session_end_info", 4, &session)
}

fn plugin_value(tag: &str, kind: u32, content: &Message) -> Message {
    // The plugin keeps its data in the metadata and a tensor of no elements.
    let no_elements = Message::new().message(2, &Message::new());
    let tensor = Message::new().int(1, FLOAT).message(2, &no_elements);
    let content = Message::new().message(kind, content);
    Message::new()
        .text(1, tag)
        .message(9, &metadata("hparams", content.bytes()))
        .message(8, &tensor)
}
