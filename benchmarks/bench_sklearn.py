"""Compare int8blas.sklearn with scikit-learn in float32 on uint8 samples, such as images: fit, predict, transform.

    python benchmarks/bench_sklearn.py [--samples 20000] [--features 784] [--threads 1]

Samples are random, around 200 centers. Times are medians of interleaved calls, in ms.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import int8blas
import int8blas.sklearn
import numpy as np
from sklearn import cluster, decomposition, neighbors, neural_network
from threadpoolctl import threadpool_limits

from bench_index import medians


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure int8blas.sklearn.")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    int8blas.num_threads(options.threads)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 200, options.samples)
    centers = rng.integers(60, 196, (200, options.features))
    x = np.clip(centers[labels] + rng.normal(0, 60, (options.samples, options.features)), 0, 255).astype(np.uint8)
    wide, asked, first = x.astype(np.float32), x[:2000] ^ 1, x[:100].astype(np.float32)
    ours: Any = int8blas.sklearn
    knn = [module.KNeighborsClassifier(5) for module in (ours, neighbors)]
    pca = [module.PCA(50) for module in (ours, decomposition)]
    means = [ours.KMeans(100, init=first, max_iter=30), cluster.KMeans(100, init=first, n_init=1, max_iter=30)]
    scaled = wide / 255
    mlp = neural_network.MLPClassifier((512, 256), max_iter=1).fit(scaled[:2000], labels[:2000])
    int8_mlp = ours.quantize_estimator(mlp)
    samples, queries = (x, wide), (asked, asked.astype(np.float32))
    with threadpool_limits(options.threads):
        for each, some in zip(knn + pca, 2 * samples, strict=True):
            each.fit(some, labels)
        cases: dict[str, list[Callable[[], Any]]] = {
            "KNeighborsClassifier.predict, 2000 queries": [lambda i=i: knn[i].predict(queries[i]) for i in range(2)],
            "KMeans(100).fit, given centers, 30 iterations": [lambda i=i: means[i].fit(samples[i]) for i in range(2)],
            "KMeans(100).fit, k-means++": [
                lambda: ours.KMeans(100, random_state=0, max_iter=30).fit(x),
                lambda: cluster.KMeans(100, random_state=0, n_init=1, max_iter=30).fit(wide),
            ],
            "MiniBatchKMeans(100).fit, given centers, 2 passes": [
                lambda: ours.MiniBatchKMeans(100, init=first, max_iter=2, max_no_improvement=None).fit(x),
                lambda: cluster.MiniBatchKMeans(
                    100, init=first, n_init=1, max_iter=2, max_no_improvement=None, tol=0.0
                ).fit(wide),
            ],
            "MLPClassifier((512, 256)).predict": [
                lambda: int8_mlp.predict(scaled),
                lambda: mlp.predict(scaled),
            ],
            "PCA(50).fit": [lambda i=i: pca[i].fit(samples[i]) for i in range(2)],
            "PCA(50).transform": [lambda i=i: pca[i].transform(samples[i]) for i in range(2)],
        }
        for name, functions in cases.items():
            found = medians(dict(zip(("int8blas", "scikit-learn"), functions, strict=True)), options.repeats)
            print(f"{name}: {found['int8blas']:.1f} and {found['scikit-learn']:.1f} ms,"
                  f" {found['scikit-learn'] / found['int8blas']:.1f}x")  # fmt: skip
        print("labels that differ:", np.count_nonzero(knn[0].predict(asked) != knn[1].predict(queries[1])))
        print("inertia:", *(f"{each.inertia_:.6g} after {each.n_iter_}" for each in means))


if __name__ == "__main__":
    main()
