//! A graph in the making: tensors by name, a node after the other.

use super::proto::{
    ATTRIBUTE_INT, Attribute, Dimension, FLOAT, Graph, INT64, Model, Node, OperatorSet, Property,
    Shape, Size, Tensor, TensorType, Type, Value,
};
use prost::Message;

/// The operators' version: old enough for every runtime in use.
const OPSET: i64 = 13;
/// The file format's version, that of the same age.
const IR_VERSION: i64 = 7;

/// A graph in the making.
#[derive(Debug, Default)]
pub(super) struct Builder {
    graph: Graph,
}

impl Builder {
    /// An input `[n, width]`.
    pub(super) fn input(&mut self, name: &str, data_type: i32, width: usize) -> String {
        self.graph.input.push(value(name, data_type, Some(width)));
        name.into()
    }

    /// Gives `tensor` out as `name`: `[n, width]`, or `[n]` without a width.
    pub(super) fn output(
        &mut self,
        tensor: &str,
        name: &str,
        data_type: i32,
        width: Option<usize>,
    ) {
        self.add("Identity", &[tensor], name, &[]);
        self.graph.output.push(value(name, data_type, width));
    }

    /// A constant f32 tensor.
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], data: &[f32]) -> String {
        let raw_data = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(name, FLOAT, shape, raw_data)
    }

    /// A constant vector of integers.
    pub(super) fn integers(&mut self, name: &str, data: &[i64]) -> String {
        let raw_data = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(name, INT64, &[data.len()], raw_data)
    }

    fn constant(
        &mut self,
        name: &str,
        data_type: i32,
        shape: &[usize],
        raw_data: Vec<u8>,
    ) -> String {
        let dims = shape.iter().map(|n| *n as i64).collect();
        self.graph.initializer.push(Tensor { dims, data_type, name: name.into(), raw_data });
        name.into()
    }

    /// A node with one output, whose name is the result.
    pub(super) fn add(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, i64)],
    ) -> String {
        let attribute = |(name, i): &(&str, i64)| Attribute {
            name: (*name).into(),
            i: *i,
            r#type: ATTRIBUTE_INT,
        };
        self.graph.node.push(Node {
            input: inputs.iter().map(ToString::to_string).collect(),
            output: vec![output.into()],
            name: output.into(),
            op_type: operator.into(),
            attribute: attributes.iter().map(attribute).collect(),
        });
        output.into()
    }

    /// The file, with what it says of itself.
    pub(super) fn file(self, name: &str, about: &[(&str, String)]) -> Vec<u8> {
        let property =
            |(key, value): &(&str, String)| Property { key: (*key).into(), value: value.clone() };
        let model = Model {
            ir_version: IR_VERSION,
            producer_name: "warp".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            graph: Some(Graph { name: name.into(), ..self.graph }),
            opset_import: vec![OperatorSet { domain: String::new(), version: OPSET }],
            metadata_props: about.iter().map(property).collect(),
        };
        model.encode_to_vec()
    }
}

/// An input or output whose rows are as many as one likes.
fn value(name: &str, elem_type: i32, width: Option<usize>) -> Value {
    let rows = Dimension { size: Some(Size::Named("n".into())) };
    let width = width.map(|width| Dimension { size: Some(Size::Fixed(width as i64)) });
    let shape = Some(Shape { dim: [rows].into_iter().chain(width).collect() });
    let tensor_type = Some(TensorType { elem_type, shape });
    Value { name: name.into(), r#type: Some(Type { tensor_type }) }
}
