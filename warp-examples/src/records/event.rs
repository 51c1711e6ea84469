//! TensorBoard's events: what they are called and how they are put together.

use super::proto::{
    Any, AnyKind, Dimension, Entry, Event, HyperParameters, Kind, Metadata, PluginData, Session,
    SessionEnd, SessionLog, SessionStart, Shape, Summary, Tensor, Value, What,
};
use prost::Message;
use std::time::{SystemTime, UNIX_EPOCH};

/// `SummaryMetadata.DataClass.DATA_CLASS_TENSOR`.
const TENSOR: i32 = 2;
/// `DataType.DT_FLOAT` and `DT_STRING`.
const FLOAT: i32 = 1;
const STRING: i32 = 7;

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

    fn event(self, what: What) -> Vec<u8> {
        let Self { wall_time, step } = self;
        Event { wall_time, step: step as i64, what: Some(what) }.encode_to_vec()
    }

    /// The first event of every file.
    pub(super) fn file_version(self) -> Vec<u8> {
        self.event(What::FileVersion("brain.Event:2".into()))
    }

    /// A process begins here: what an earlier one wrote for this step and later ones counts no more.
    pub(super) fn session_start(self) -> Vec<u8> {
        const START: i32 = 1;
        self.event(What::SessionLog(SessionLog { status: START }))
    }

    /// Values that belong together.
    pub(super) fn summary(self, value: Vec<Value>) -> Vec<u8> {
        self.event(What::Summary(Summary { value }))
    }
}

/// A number.
pub(super) fn scalar(tag: &str, value: f64) -> Value {
    Value { tag: tag.into(), metadata: None, kind: Some(Kind::Number(value as f32)) }
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
    pub(super) fn value(&self, tag: &str) -> Value {
        let histogram = super::proto::Histogram {
            min: self.min,
            max: self.limits.last().copied().unwrap_or(self.min),
            num: self.counts.iter().sum(),
            sum: self.sum,
            sum_squares: self.sum_squares,
            bucket_limit: self.limits.clone(),
            bucket: self.counts.clone(),
        };
        Value { tag: tag.into(), metadata: None, kind: Some(Kind::Histogram(histogram)) }
    }
}

/// A tensor that a plugin shows, which keeps `content` in its metadata.
fn shown_by(plugin: &str, content: Vec<u8>, tag: &str, tensor: Tensor) -> Value {
    let plugin_data = PluginData { plugin_name: plugin.into(), content };
    let metadata = Metadata { plugin_data: Some(plugin_data), data_class: TENSOR };
    Value { tag: tag.into(), metadata: Some(metadata), kind: Some(Kind::Tensor(tensor)) }
}

/// A text in Markdown.
pub(super) fn text(tag: &str, markdown: &str) -> Value {
    let tensor_shape = Some(Shape::default());
    let string_val = vec![markdown.as_bytes().to_vec()];
    shown_by("text", Vec::new(), tag, Tensor { dtype: STRING, tensor_shape, string_val })
}

/// A hyper-parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parameter {
    Number(f64),
    Text(String),
    Switch(bool),
}

/// The hyper-parameters of the run, for the plugin of that name.
pub(super) fn hyper_parameters(parameters: &[(String, Parameter)], started: f64) -> Value {
    let entry = |(name, parameter): &(String, Parameter)| {
        let kind = match parameter {
            Parameter::Number(number) => AnyKind::Number(*number),
            Parameter::Text(text) => AnyKind::Text(text.clone()),
            Parameter::Switch(on) => AnyKind::Switch(*on),
        };
        Entry { key: name.clone(), value: Some(Any { kind: Some(kind) }) }
    };
    let hparams = parameters.iter().map(entry).collect();
    let start = SessionStart { hparams, start_time_secs: started };
    of_hyper_parameters("_hparams_/session_start_info", Session::Start(start))
}

/// The run has ended as it should.
pub(super) fn session_end(ended: f64) -> Value {
    const SUCCESS: i32 = 1;
    let end = SessionEnd { status: SUCCESS, end_time_secs: ended };
    of_hyper_parameters("_hparams_/session_end_info", Session::End(end))
}

fn of_hyper_parameters(tag: &str, session: Session) -> Value {
    let content = HyperParameters { session: Some(session) }.encode_to_vec();
    // The plugin keeps its data in the metadata and a tensor of no elements.
    let tensor_shape = Some(Shape { dim: vec![Dimension { size: 0 }] });
    let tensor = Tensor { dtype: FLOAT, tensor_shape, string_val: Vec::new() };
    shown_by("hparams", content, tag, tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, field by field: what TensorBoard's own reader takes apart.
    #[test]
    fn events_are_encoded_as_the_format_says() {
        let when = When { wall_time: 1.0, step: 150 };
        let head = [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 0x96, 0x01];
        let version = [&head[..], &[0x1a, 13], b"brain.Event:2"].concat();
        assert_eq!(when.file_version(), version);
        assert_eq!(when.session_start(), [&head[..], &[0x3a, 2, 8, 1]].concat());
        // A number of 0 is a part of the choice, and stays.
        let value = [0x0a, 1, b'x', 0x15, 0, 0, 0, 0];
        let summary = [&head[..], &[0x2a, 10, 0x0a, 8], &value].concat();
        assert_eq!(when.summary(vec![scalar("x", 0.0)]), summary);
    }
}
