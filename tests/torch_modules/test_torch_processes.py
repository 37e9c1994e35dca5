"""int8blas.torch in workers of a DataLoader, which are forked or spawned, and in threads."""

import multiprocessing
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the extra int8blas[torch]")
with warnings.catch_warnings():  # torch's own, at import
    warnings.simplefilter("ignore")
    import int8blas.torch as i8
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


class Embedded(torch.utils.data.Dataset):
    """Rows that workers compute with a model."""

    def __init__(self, model, x):
        self.model, self.x = model, x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        with torch.no_grad():
            return self.model(self.x[k : k + 1])[0]


def models():
    layers = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 8)).eval()
    x = torch.randn(6, 64)
    return i8.calibrate(layers, [x]), i8.quantize_(layers), x


def ways():
    return [each for each in ("fork", "spawn") if each in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("way", ways())
def test_workers_compute_what_the_process_does(way):
    static, dynamic, x = models()
    for model in (static, dynamic) if way == "fork" else (nn.Sequential(dynamic, nn.Identity()), static):
        with torch.no_grad():
            wanted = model(x)  # the threads of this process exist before the workers
        loader = torch.utils.data.DataLoader(Embedded(model, x), 3, num_workers=2, multiprocessing_context=way)
        assert torch.equal(torch.cat(list(loader)), wanted)


def test_threads_share_a_model():
    for model in models()[:2]:
        sources = [torch.randn(k + 1, 64) for k in range(4)]
        with torch.no_grad():
            wanted = [model(each) for each in sources]
        wrong = []

        def call(k, model=model, sources=sources, wanted=wanted, wrong=wrong):
            with torch.no_grad():
                wrong.extend(k for _ in range(50) if not torch.equal(model(sources[k]), wanted[k]))

        threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not wrong
