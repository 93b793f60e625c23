"""A plain loop with a network of timm: the line of the loss is another one. python examples/loops/plain.py"""

import timm
import torch
from digits import CLASSES, OLD_CLASSES, digits

import mptctl


def main(epochs: int = 3) -> mptctl.Report:
    seen, test = digits()
    model = timm.create_model("resnet10t", num_classes=CLASSES, in_chans=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    larger = torch.nn.Upsample(scale_factor=4)
    loss = mptctl.build_method("mpt-kl", num_old=OLD_CLASSES, k=2.0)
    for _ in range(epochs):
        model.train()
        for rows in torch.randperm(len(seen.labels)).split(64)[:-1]:
            pictures, labels = seen.pictures[rows], seen.labels[rows]
            terms = loss(model(larger(pictures)), labels, seen.old(pictures), seen.ref(pictures))
            optimizer.zero_grad()
            terms["loss"].backward()
            optimizer.step()
    model.eval()
    with torch.inference_mode():
        new = model(larger(test.pictures))
    return mptctl.evaluate(test.labels, old=test.old(test.pictures), new=new)


if __name__ == "__main__":
    print(main())
