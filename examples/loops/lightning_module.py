"""A module of Lightning with MPT's loss and cached logits. python examples/loops/lightning_module.py"""

import lightning
import torch
from digits import CLASSES, OLD_CLASSES, digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import mptctl


class Student(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))
        self.method = mptctl.build_method("mpt-kl", num_old=OLD_CLASSES, k=2.0)

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        pictures, labels, old_logits, ref_logits = batch
        return self.method(self.network(pictures), labels, old_logits, ref_logits)["loss"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main(epochs: int = 20) -> mptctl.Report:
    seen, test = digits()
    student = Student()
    asked_once = seen.old(seen.pictures), seen.ref(seen.pictures)
    data = DataLoader(TensorDataset(seen.pictures, seen.labels, *asked_once), batch_size=64, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False
    )
    trainer.fit(student, data)
    new = student.network(test.pictures).detach()
    return mptctl.evaluate(test.labels, old=test.old(test.pictures), new=new)


if __name__ == "__main__":
    print(main())
