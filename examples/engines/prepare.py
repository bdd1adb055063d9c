"""Write the weights of the example; random ones will do, for what a network takes does not depend on them."""

import torch
from nets import Response

torch.manual_seed(0)
torch.save(Response().state_dict(), "weights.pt")
