"""What a call of a tf.function consists of, against sums made by hand."""

import pytest

from modak_deploy.launch.frameworks.tensorflow.work import features

CONVOLUTION = 2 * 5 * 4 * 4 * 8 * 27
DENSE = 2 * 5 * 128 * 10


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


@pytest.fixture
def net(tf):
    class Net(tf.Module):
        def __init__(self):
            self.kernel = tf.Variable(tf.ones((3, 3, 3, 8)))
            self.dense = tf.Variable(tf.ones((128, 10)))
            self.steps = tf.Variable(0.0, trainable=False)

        def scores(self, x):
            return tf.reshape(tf.nn.relu(tf.nn.conv2d(x, self.kernel, 2, "SAME")), (-1, 128)) @ self.dense

        @tf.function
        def predict(self, x):
            return self.scores(x)

        @tf.function
        def step(self, x, y):
            trained = [self.kernel, self.dense]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.scores(x)))
            for variable, gradient in zip(trained, tape.gradient(loss, trained), strict=True):
                variable.assign_sub(0.1 * gradient)
            self.steps.assign_add(1.0)
            return loss

    return Net()  # TensorFlow itself keeps it by a weak reference


def test_a_call_of_a_network(tf, net):
    x = tf.ones((5, 8, 8, 3))
    seen = features(net.predict.get_concrete_function(x))
    assert (seen["batch"], seen["parameters"], seen["layers"]) == (5, 3 * 3 * 3 * 8 + 1280, 2)
    assert seen["flops"] == CONVOLUTION + DENSE
    assert seen["flops_per_sample"] == (CONVOLUTION + DENSE) / 5
    assert seen["mix_convolution"] == pytest.approx(CONVOLUTION / (CONVOLUTION + DENSE))


def test_a_step_has_its_gradients(tf, net):
    seen = features(net.step.get_concrete_function(tf.ones((5, 8, 8, 3)), tf.zeros((5,), tf.int32)))
    assert seen["flops"] == 2 * CONVOLUTION + 3 * DENSE, "the gradient of the images is asked for by nobody"
    assert seen["layers"] == 2, "gradients are no layers"


def test_gradients_without_a_tape_and_within_a_scope_are_no_layers(tf):
    @tf.function
    def graph(x, w):
        with tf.name_scope("outer"):
            return tf.gradients(tf.matmul(tf.tanh(tf.matmul(x, w)), w), w)

    @tf.function
    def taped(x, w):
        with tf.name_scope("outer"), tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.einsum("ij,jk->ik", tf.tanh(tf.matmul(x, w)), w)
        with tf.name_scope("other"):
            return tape.gradient(loss, w)

    for function in (graph, taped):
        seen = features(function.get_concrete_function(tf.ones((2, 4)), tf.ones((4, 4))))
        assert seen["flops"] == 4 * 2 * 2 * 4 * 4, "the last product's result is asked for by nobody"
        assert seen["layers"] == 1


def test_einsum_transposes_and_batches(tf):
    @tf.function
    def call(x, y):
        return tf.einsum("bij,jk->bik", x, y), tf.matmul(x, x, transpose_a=True)

    seen = features(call.get_concrete_function(tf.ones((2, 3, 4)), tf.ones((4, 7))))
    assert seen["flops"] == 2 * 2 * 3 * 4 * 7 + 2 * 2 * 4 * 4 * 3


def test_what_is_not_certain_is_left_out(tf):
    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def unknown(x):
        return x @ tf.ones((4, 3))

    @tf.function
    def loop(x):
        while tf.reduce_sum(x) < 10.0:
            x = x @ x
        return x

    assert features(unknown.get_concrete_function()) == {}
    assert features(loop.get_concrete_function(tf.ones((2, 2)))) == {"batch": 2}


def test_branches_by_an_index_and_sparse_products_are_left_out(tf):
    @tf.function
    def switched(x, at):
        return tf.switch_case(at, [lambda: x @ x, lambda: x]) @ x

    @tf.function
    def sparse(x):
        return tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), x)

    x = tf.ones((2, 2))
    assert features(switched.get_concrete_function(x, tf.constant(0))) == {"batch": 2}
    assert features(sparse.get_concrete_function(x)) == {"batch": 2}
